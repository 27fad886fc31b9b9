// Fault: each warp has a K tile of its own and a __syncwarp() after loading it, but none after using it: a lane ahead
// loads the next tile over keys that others still read.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 8, kWarps = 2;

// Each lane adds up the scores of its query row with all keys.
__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ float tiles[kWarps][kTile][kDim];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = threadIdx.x;
  float sum = 0.f;
  for (int first = 0; first < n; first += kTile) {
    for (int j = 0; j < kTile; ++j) tiles[warp][j][lane] = k[(first + j) * kDim + lane];  // expect: data_race
    __syncwarp();
    for (int j = 0; j < kTile; ++j)
      for (int d = 0; d < kDim; ++d) sum += q[row * kDim + d] * tiles[warp][j][d];  // other
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, 32 * kWarps>>>(q, k, out, n);
}
