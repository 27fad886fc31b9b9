// Fault: no __syncthreads() between loading a K tile and using it: a warp reads rows that other warps have not stored
// yet, and sees those of the tile before.
// n = 96
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 32, kThreads = 128, kWarps = kThreads / 32;

// Largest score of each query row; a warp for each row, a lane for each key of the tile.
__global__ void largest_score(const float* q, const float* k, float* out, int n) {
  __shared__ float k_tile[kTile][kDim + 1];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * kWarps + warp;
  const float query = row < n ? q[row * kDim + lane] : 0.f;
  float m = -INFINITY;
  for (int first = 0; first < n; first += kTile) {
    for (int j = warp; j < kTile; j += kWarps)
      k_tile[j][lane] = first + j < n ? k[(first + j) * kDim + lane] : 0.f;  // other
    float s = 0.f;
    for (int d = 0; d < kDim; ++d) s += __shfl_sync(0xffffffffu, query, d) * k_tile[lane][d];  // expect: data_race
    if (first + lane < n) m = fmaxf(m, s);
    __syncthreads();
  }
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));
  if (row < n) out[row * kDim + lane] = m;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  largest_score<<<(n + kWarps - 1) / kWarps, kThreads>>>(q, k, out, n);
}
