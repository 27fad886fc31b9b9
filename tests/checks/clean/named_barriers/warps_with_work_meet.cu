// Clean: only the warps that have rows wait, at a named barrier for just their threads; the others have returned.
// n = 96
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void reverse(const float* in, float* out, int n) {
  __shared__ float row[kThreads];
  if (threadIdx.x >= n) return;
  row[threadIdx.x] = in[threadIdx.x];
  asm volatile("bar.sync 1, %0;" ::"r"(n) : "memory");
  out[threadIdx.x] = row[n - 1 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out, n); }
