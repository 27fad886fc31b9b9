// Fault: a thread leaves the loop over tiles when it has seen a score above its limit; the others go on to the barrier.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void first_large(const float* in, float* out, int tiles) {
  __shared__ float tile[kThreads];
  float found = 0.f;
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * kThreads + threadIdx.x];
    __syncthreads();  // expect: barrier_divergence
    found = tile[kThreads - 1 - threadIdx.x];
    if (found > 0.5f) break;
    __syncthreads();  // expect: barrier_divergence
  }
  for (int t = 0; t < tiles; ++t) out[t * kThreads + threadIdx.x] = found;
}

extern "C" void solve(const float* in, float* out, int n) { first_large<<<1, kThreads>>>(in, out, n / kThreads); }
