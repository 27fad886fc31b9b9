// Fault: the next tile is prefetched into the stage that is being read (tile % 2 instead of (tile + 1) % 2): with one
// barrier a tile, that overwrites keys in use.
// n = 128
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 128;

// Sum of the scores of each query row with all keys.
__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float stages[2][kTile * kDim];
  const int row = threadIdx.x;
  auto load = [&](int tile, float* stage) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kThreads) stage[i] = k[tile * kTile * kDim + i];  // other
  };
  float sum = 0.f;
  load(0, stages[0]);
  load(1, stages[1]);
  __syncthreads();
  for (int tile = 0; tile < n / kTile; ++tile) {
    if (tile > 0 && tile + 1 < n / kTile) load(tile + 1, stages[tile % 2]);
    for (int i = 0; i < kTile * kDim; ++i) sum += q[row * kDim + i % kDim] * stages[tile % 2][i];  // expect: data_race
    __syncthreads();
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
