// Fault: a named barrier for the 48 threads that hold keys: its count must be a multiple of the warp size.
// n = 64
#include <cuda_runtime.h>

__global__ void reverse_keys(const float* in, float* out, int keys) {
  __shared__ float row[64];
  row[threadIdx.x] = in[threadIdx.x];
  asm volatile("bar.sync 1, %0;" ::"r"(keys) : "memory");  // expect: barrier_divergence
  out[threadIdx.x] = row[63 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse_keys<<<1, n>>>(in, out, 48); }
