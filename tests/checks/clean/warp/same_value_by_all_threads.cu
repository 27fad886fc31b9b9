// Clean: all threads of a warp store the same value to one word, which every thread of the block then reads.
// n = 64
#include <cuda_runtime.h>

__global__ void scale(const float* in, float* out) {
  __shared__ float factor;
  if (threadIdx.x < 32) factor = 0.25f;
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x] * factor;
}

extern "C" void solve(const float* in, float* out, int n) { scale<<<1, n>>>(in, out); }
