// Fault: the launch gives the size of its dynamic shared memory in floats; it counts bytes.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void reverse(const float* in, float* out) {
  extern __shared__ float row[];
  row[threadIdx.x] = in[threadIdx.x];  // expect: out_of_bounds
  __syncthreads();
  out[threadIdx.x] = row[kThreads - 1 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads, kThreads>>>(in, out); }
