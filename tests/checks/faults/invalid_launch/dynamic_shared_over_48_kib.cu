// Fault: the launch asks for 64 KiB of dynamic shared memory without cudaFuncSetAttribute(): CUDA refuses it.
// n = 128
#include <cuda_runtime.h>

__global__ void reverse(const float* in, float* out, int n) {
  extern __shared__ float row[];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[n - 1 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) {
  reverse<<<1, n, 64 * 1024>>>(in, out, n);  // expect: invalid_launch
}
