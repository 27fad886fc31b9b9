// Fault: the producer arrives at the "full" barrier before it has stored the tile, not after.
// n = 64
#include <cuda_runtime.h>

constexpr int kThreads = 64;

// Warp 0 loads, warp 1 uses.
__global__ void hand_over(const float* in, float* out) {
  __shared__ float stage[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    const float value = in[lane];
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    stage[lane] = value * 0.5f;  // other
    out[lane] = value;
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = stage[lane];  // expect: data_race
  }
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, kThreads>>>(in, out); }
