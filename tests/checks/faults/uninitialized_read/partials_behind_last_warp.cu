// Fault: the second level of a block reduction always reads 32 partial sums, though the block has 3 warps.
// n = 96
#include <cuda_runtime.h>

constexpr int kThreads = 96;

__global__ void row_sum(const float* in, float* out) {
  __shared__ float partial[32];
  __shared__ float total;
  float sum = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];  // expect: uninitialized_read
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) total = sum;
  }
  __syncthreads();
  out[threadIdx.x] = total;
}

extern "C" void solve(const float* in, float* out, int n) { row_sum<<<1, kThreads>>>(in, out); }
