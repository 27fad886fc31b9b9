// Fault: two groups of 64 threads wait at named barriers of their own, yet read what the other group stored: a named
// barrier orders only those who take part.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128, kGroup = 64;

__global__ void reverse(const float* in, float* out) {
  __shared__ float scores[kThreads];
  const int group = threadIdx.x / kGroup;
  scores[threadIdx.x] = in[threadIdx.x];  // other
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kGroup) : "memory");
  out[threadIdx.x] = scores[kThreads - 1 - threadIdx.x];  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
