// Fault: with a causal mask each warp runs over the tiles up to its own rows, though all share the tile and its
// barriers: those with later rows wait for warps that have left.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 32, kThreads = 64;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile * kDim];
  const int row = threadIdx.x, warp = threadIdx.x / 32;
  float sum = 0.f;
  for (int t = 0; t <= warp; ++t) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads) tile[i] = k[t * kTile * kDim + i];
    __syncthreads();  // expect: barrier_divergence
    for (int j = 0; j < kTile && t * kTile + j <= row; ++j) sum += q[row * kDim] * tile[j * kDim];
    __syncthreads();
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
