// Clean: blocks behind the last row return as a whole before the barriers: no thread is left waiting.
// n = 96
#include <cuda_runtime.h>

constexpr int kThreads = 32;

__global__ void reverse(const float* in, float* out, int n) {
  __shared__ float row[kThreads];
  if (blockIdx.x * kThreads >= n) return;
  const int first = blockIdx.x * kThreads;
  row[threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = row[kThreads - 1 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<n / kThreads + 2, kThreads>>>(in, out, n); }
