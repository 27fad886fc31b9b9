// Fault: the producer waits for "empty" before it fills the stage for the first time, and the consumer, which would
// say so, waits for "full".
// n = 128
#include <cuda_runtime.h>

constexpr int kTile = 32;

// Warp 0 loads, warp 1 uses.
__global__ void copy_tiles(const float* in, float* out, int tiles) {
  __shared__ float stage[kTile];
  const int lane = threadIdx.x % 32;
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x < 32) {
      asm volatile("bar.sync 2, 64;" ::: "memory");  // expect: deadlock
      stage[lane] = in[tile * kTile + lane];
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
      asm volatile("bar.sync 1, 64;" ::: "memory");  // expect: deadlock
      out[tile * kTile + lane] = stage[lane];
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
  }
}

extern "C" void solve(const float* in, float* out, int n) { copy_tiles<<<1, 64>>>(in, out, n / kTile); }
