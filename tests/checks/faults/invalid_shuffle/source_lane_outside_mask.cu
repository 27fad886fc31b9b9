// Fault: the lower half of a warp fetches from the upper half by a shuffle whose mask names the lower half alone.
// n = 32
#include <cuda_runtime.h>

__global__ void fetch(const float* in, float* out) {
  float x = in[threadIdx.x];
  if (threadIdx.x < 16) x += __shfl_sync(0x0000ffffu, x, threadIdx.x + 16);  // expect: invalid_shuffle
  out[threadIdx.x] = x;
}

extern "C" void solve(const float* in, float* out, int n) { fetch<<<1, 32>>>(in, out); }
