// Fault: scratch memory is freed before the kernel that reads it is launched.
// n = 64
#include <cuda_runtime.h>

__global__ void doubled(const float* in, float* scratch) { scratch[threadIdx.x] = 2.f * in[threadIdx.x]; }

__global__ void copy(const float* scratch, float* out) { out[threadIdx.x] = scratch[threadIdx.x]; }

extern "C" void solve(const float* in, float* out, int n) {
  float* scratch;
  cudaMalloc(&scratch, n * sizeof(float));
  doubled<<<1, n>>>(in, scratch);
  cudaFree(scratch);
  copy<<<1, n>>>(scratch, out);  // expect: out_of_bounds
}
