// Fault: two halves of a warp add up their own rows, both with the mask of the lower half: the upper lanes call with
// a mask that does not name them.
// n = 32
#include <cuda_runtime.h>

__global__ void row_sums(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int offset = 8; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0x0000ffffu, sum, offset, 16);  // expect: invalid_shuffle
  out[threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { row_sums<<<1, 32>>>(in, out); }
