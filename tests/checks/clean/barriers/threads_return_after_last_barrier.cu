// Clean: single threads and whole warps return early, but behind the last barrier of the kernel.
// n = 100
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void normalise(const float* in, float* out, int n) {
  __shared__ float weights[kThreads];
  const int i = threadIdx.x;
  weights[i] = i < n ? expf(in[i]) : 0.f;
  __syncthreads();
  if (i >= n) return;
  float sum = 0.f;
  for (int j = 0; j < kThreads; ++j) sum += weights[j];
  if (weights[i] < 0.01f * sum) {
    out[i] = 0.f;
    return;
  }
  out[i] = weights[i] / sum;
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<1, kThreads>>>(in, out, n); }
