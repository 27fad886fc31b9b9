// Fault: the producer warp arrives at the "full" barrier for 96 threads, the consumers wait there for 128.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void hand_over(const float* in, float* out) {
  __shared__ float stage[32];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    stage[lane] = in[lane];
    asm volatile("bar.arrive 1, %0;" ::"r"(kThreads - 32) : "memory");  // expect: barrier_divergence
    out[lane] = in[lane];
  } else {
    asm volatile("bar.sync 1, %0;" ::"r"(kThreads) : "memory");  // expect: barrier_divergence
    out[threadIdx.x] = stage[lane];
  }
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, kThreads>>>(in, out); }
