// Fault: the barriers of a tile loop stand inside `if (row < n)`: threads of padded rows never reach them.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 8, kThreads = 64;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile * kDim];
  const int row = threadIdx.x;
  if (row < n) {
    float sum = 0.f;
    for (int first = 0; first < n; first += kTile) {
      for (int i = threadIdx.x; i < kTile * kDim; i += n) tile[i] = k[first * kDim + i];
      __syncthreads();  // expect: barrier_divergence
      for (int i = 0; i < kTile * kDim; ++i) sum += q[row * kDim + i % kDim] * tile[i];
      __syncthreads();
    }
    for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
  }
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
