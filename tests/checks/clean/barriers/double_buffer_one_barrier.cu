// Clean: two stages and a single barrier a tile: the stage that is filled was last read before the previous barrier.
// n = 128
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 128;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float stages[2][kTile * kDim];
  const int row = threadIdx.x, tiles = n / kTile;
  auto load = [&](int tile) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads) stages[tile % 2][i] = k[tile * kTile * kDim + i];
  };
  float sum = 0.f;
  load(0);
  for (int tile = 0; tile < tiles; ++tile) {
    __syncthreads();
    if (tile + 1 < tiles) load(tile + 1);
    for (int i = 0; i < kTile * kDim; ++i) sum += q[row * kDim + i % kDim] * stages[tile % 2][i];
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
