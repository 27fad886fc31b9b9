// Fault: the producer waits until the stage is empty after every tile, but consumers say so only where another tile
// follows.
// n = 128
#include <cuda_runtime.h>

constexpr int kTile = 32;

__global__ void copy_tiles(const float* in, float* out, int tiles) {
  __shared__ float stage[kTile];
  const int lane = threadIdx.x % 32;
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x < 32) {
      stage[lane] = in[tile * kTile + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
      asm volatile("bar.sync 2, 64;" ::: "memory");  // expect: deadlock
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");
      out[tile * kTile + lane] = stage[lane];
      if (tile + 1 < tiles) asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
  __syncthreads();  // expect: deadlock
}

extern "C" void solve(const float* in, float* out, int n) { copy_tiles<<<1, 64>>>(in, out, n / kTile); }
