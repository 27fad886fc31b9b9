// Fault: __syncthreads_or() stands behind &&: threads whose own condition fails never call it.
// n = 64
#include <cuda_runtime.h>

__global__ void any_large(const float* in, float* out) {
  const float x = in[threadIdx.x];
  const bool large = x > -0.5f && __syncthreads_or(x > 1.f);  // expect: barrier_divergence
  out[threadIdx.x] = large ? 1.f : 0.f;
}

extern "C" void solve(const float* in, float* out, int n) { any_large<<<1, n>>>(in, out); }
