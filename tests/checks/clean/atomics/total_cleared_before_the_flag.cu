// Clean: the first block clears the total and adds to it before it raises a flag behind a fence; every other block
// sees the flag, fences, too, and only then adds.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void add_up(const float* in, float* out, float* total, int* ready) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i == 0) {
    *total = 0.f;
    atomicAdd(total, 1.f);
    __threadfence();
    atomicExch(ready, 1);
  } else if (threadIdx.x == 0) {
    while (atomicAdd(ready, 0) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
  atomicAdd(total, in[i] * in[i]);
  out[i] = in[i];
}

extern "C" void solve(const float* in, float* out, int n) {
  float* total;
  int* ready;
  cudaMalloc(&total, sizeof(float));
  cudaMalloc(&ready, sizeof(int));
  cudaMemset(ready, 0, sizeof(int));
  add_up<<<n / kThreads, kThreads>>>(in, out, total, ready);
  cudaFree(total);
  cudaFree(ready);
}
