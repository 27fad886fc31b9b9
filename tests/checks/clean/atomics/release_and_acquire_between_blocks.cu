// Clean: each block waits for the one before it with ld.acquire and lets the next one go with st.release; four small
// blocks are resident together.
// n = 128
#include <cuda_runtime.h>

__device__ int load_acquire(const int* p) {
  int value;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

__device__ void store_release(int* p, int value) {
  asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

__global__ void prefix_sums(const float* in, float* out, float* carry, int* ready) {
  const int lane = threadIdx.x, b = blockIdx.x;
  float sum = in[b * 32 + lane];
  if (b > 0) {
    if (lane == 0)
      while (load_acquire(&ready[b - 1]) == 0) {
      }
    __syncwarp();
    sum += carry[(b - 1) * 32 + lane];
  }
  carry[b * 32 + lane] = sum;
  __syncwarp();
  if (lane == 0) store_release(&ready[b], 1);
  out[b * 32 + lane] = sum;
}

extern "C" void solve(const float* in, float* out, int n) {
  float* carry;
  int* ready;
  cudaMalloc(&carry, n * sizeof(float));
  cudaMalloc(&ready, n / 32 * sizeof(int));
  cudaMemset(ready, 0, n / 32 * sizeof(int));
  prefix_sums<<<n / 32, 32>>>(in, out, carry, ready);
  cudaFree(carry);
  cudaFree(ready);
}
