// Fault: two warps take turns by two named barriers; each first waits for its turn, and nobody gives the first one.
// n = 128
#include <cuda_runtime.h>

__global__ void ping_pong(const float* in, float* out) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int turn = 0; turn < 2; ++turn) {
    asm volatile("bar.sync %0, 64;" ::"r"(1 + warp) : "memory");  // expect: deadlock
    out[(turn * 2 + warp) * 32 + lane] = in[(turn * 2 + warp) * 32 + lane];
    asm volatile("bar.arrive %0, 64;" ::"r"(2 - warp) : "memory");
  }
}

extern "C" void solve(const float* in, float* out, int n) { ping_pong<<<1, 64>>>(in, out); }
