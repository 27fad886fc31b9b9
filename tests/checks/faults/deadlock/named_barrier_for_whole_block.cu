// Fault: two of four warps wait at a named barrier for the whole block; the other two never come to it.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void reverse(const float* in, float* out) {
  __shared__ float row[kThreads];
  row[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 128;" ::: "memory");  // expect: deadlock
  __syncthreads();  // expect: deadlock
  out[threadIdx.x] = row[kThreads - 1 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
