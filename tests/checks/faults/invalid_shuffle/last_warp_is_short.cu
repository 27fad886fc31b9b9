// Fault: a block of 48 threads: in its second warp, which has 16, a butterfly over 32 lanes reads lanes that do not
// exist.
// n = 48
#include <cuda_runtime.h>

__global__ void warp_sums(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);  // expect: invalid_shuffle
  out[threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { warp_sums<<<1, n>>>(in, out); }
