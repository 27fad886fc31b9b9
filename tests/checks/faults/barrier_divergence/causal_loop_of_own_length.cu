// Fault: with a causal mask each thread runs over the tiles up to its own row, and waits at a barrier in each of them:
// rows end at different tiles.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 8, kThreads = 64;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile * kDim];
  const int row = threadIdx.x;
  float sum = 0.f;
  for (int first = 0; first <= row; first += kTile) {
    __syncthreads();  // expect: barrier_divergence
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads) tile[i] = k[first * kDim + i];
    __syncthreads();  // expect: barrier_divergence
    for (int j = 0; j < kTile && first + j <= row; ++j) sum += q[row * kDim] * tile[j * kDim];
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
