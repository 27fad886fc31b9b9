// Fault: block 0 raises a volatile flag behind its result with no __threadfence() between: block 1 may see the flag
// and still read the old memory.
// n = 64
#include <cuda_runtime.h>

// Two blocks, so both are resident: the second continues the sum of the first.
__global__ void chain(const float* in, float* out, float* carry, volatile int* ready) {
  const int lane = threadIdx.x;
  float sum = in[blockIdx.x * 32 + lane];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (blockIdx.x == 0) {
    carry[lane] = sum;  // other
    __syncthreads();
    if (lane == 0) *ready = 1;
  } else {
    while (*ready == 0) {
    }
    sum += carry[lane];  // expect: data_race
  }
  out[blockIdx.x * 32 + lane] = sum;
}

extern "C" void solve(const float* in, float* out, int n) {
  float* carry;
  int* ready;
  cudaMalloc(&carry, 32 * sizeof(float));
  cudaMalloc(&ready, sizeof(int));
  cudaMemset(ready, 0, sizeof(int));
  chain<<<2, 32>>>(in, out, carry, ready);
  cudaFree(carry);
  cudaFree(ready);
}
