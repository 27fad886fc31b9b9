// Fault: the producer warp refills the single stage as soon as it has announced it (by a barrier for each tile): no
// "empty" barrier tells it that the consumers are done reading.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 96, kTile = 32;

// Warp 0 loads tiles, warps 1 and 2 add them up.
__global__ void add_tiles(const float* in, float* out, int tiles) {
  __shared__ float stage[kTile];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0.f;
  for (int tile = 0; tile < tiles; ++tile) {
    if (warp == 0) {
      stage[lane] = in[tile * kTile + lane];  // expect: data_race
      asm volatile("bar.arrive %0, %1;" ::"r"(1 + tile), "n"(kThreads) : "memory");
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + tile), "n"(kThreads) : "memory");
      sum += stage[(lane + warp) % kTile];  // other
    }
  }
  if (warp == 1)
    for (int i = lane; i < tiles * kTile; i += 32) out[i] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { add_tiles<<<1, kThreads>>>(in, out, n / kTile); }
