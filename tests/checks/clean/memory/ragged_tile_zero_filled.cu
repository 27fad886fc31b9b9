// Clean: the last K tile is filled with zeros behind the last key, and its scores are masked before the maximum.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 64;

__global__ void largest_score(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile][kDim + 1];
  const int row = threadIdx.x;
  float m = -INFINITY;
  for (int first = 0; first < n; first += kTile) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads)
      tile[i / kDim][i % kDim] = first + i / kDim < n ? k[first * kDim + i] : 0.f;
    __syncthreads();
    for (int j = 0; j < kTile; ++j) {
      float s = 0.f;
      for (int d = 0; d < kDim; ++d) s += (row < n ? q[row * kDim + d] : 0.f) * tile[j][d];
      m = fmaxf(m, first + j < n ? s : -INFINITY);
    }
    __syncthreads();
  }
  if (row < n)
    for (int d = 0; d < kDim; ++d) out[row * kDim + d] = m;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  largest_score<<<1, kThreads>>>(q, k, out, n);
}
