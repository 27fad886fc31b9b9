// Fault: lanes of padded rows have returned when the warp adds up with a full mask.
// n = 40
#include <cuda_runtime.h>

__global__ void row_sum(const float* in, float* out, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (i >= n) return;
  float sum = in[i];
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, offset);  // expect: invalid_shuffle
  out[i] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { row_sum<<<(n + 31) / 32, 32>>>(in, out, n); }
