// Clean: warps take different branches, with full-mask shuffles inside; each warp goes as a whole.
// n = 128
#include <cuda_runtime.h>

__global__ void alternate(const float* in, float* out) {
  const int warp = threadIdx.x / 32;
  float x = in[threadIdx.x];
  if (warp % 2 == 0) {
    for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  } else {
    for (int turn = 0; turn < warp; ++turn) x = fmaxf(x, __shfl_up_sync(0xffffffffu, x, 1));
  }
  out[threadIdx.x] = x;
}

extern "C" void solve(const float* in, float* out, int n) { alternate<<<1, n>>>(in, out); }
