// Fault: the last K tile is loaded whole though only a part of its keys exist.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 64;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile * kDim];
  const int row = threadIdx.x;
  float sum = 0.f;
  for (int first = 0; first < n; first += kTile) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads) tile[i] = k[first * kDim + i];  // expect: out_of_bounds
    __syncthreads();
    for (int i = 0; i < min(kTile, n - first) * kDim; ++i)
      if (row < n) sum += q[row * kDim + i % kDim] * tile[i];
    __syncthreads();
  }
  if (row < n)
    for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
