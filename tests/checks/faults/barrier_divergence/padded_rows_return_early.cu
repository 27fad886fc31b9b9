// Fault: threads of padded rows return before the block's barrier.
// n = 100
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void normalise(const float* in, float* out, int n) {
  __shared__ float weights[kThreads];
  const int i = threadIdx.x;
  if (i >= n) return;
  weights[i] = expf(in[i]);
  __syncthreads();  // expect: barrier_divergence
  float sum = 0.f;
  for (int j = 0; j < n; ++j) sum += weights[j];
  out[i] = weights[i] / sum;
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<1, kThreads>>>(in, out, n); }
