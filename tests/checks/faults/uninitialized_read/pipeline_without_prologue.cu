// Fault: a double-buffered loop loads the next tile in each turn, but nobody loads the first before it begins.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 64;

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[2][kTile];
  const int t = threadIdx.x;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) stages[(tile + 1) % 2][t] = in[(tile + 1) * kTile + t];
    out[tile * kTile + t] = stages[tile % 2][kTile - 1 - t];  // expect: uninitialized_read
    __syncthreads();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
