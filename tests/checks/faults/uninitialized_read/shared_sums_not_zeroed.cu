// Fault: a block adds to a shared accumulator with atomicAdd and nobody sets it to zero first.
// n = 128
#include <cuda_runtime.h>

__global__ void row_sum(const float* in, float* out) {
  __shared__ float sum;
  atomicAdd(&sum, in[threadIdx.x]);  // expect: uninitialized_read
  __syncthreads();
  out[threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { row_sum<<<1, n>>>(in, out); }
