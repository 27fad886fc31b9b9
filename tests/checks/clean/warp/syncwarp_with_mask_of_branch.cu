// Clean: half of a warp works by itself, with __syncwarp() over the lanes that are there.
// n = 32
#include <cuda_runtime.h>

__global__ void halves(const float* in, float* out) {
  __shared__ float row[32];
  const int lane = threadIdx.x;
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  if (lane < 16) {
    row[lane] = 2.f * in[lane];
    __syncwarp(mask);
    out[lane] = row[15 - lane];
  } else {
    row[lane] = in[lane];
    __syncwarp(mask);
    out[lane] = row[47 - lane];
  }
}

extern "C" void solve(const float* in, float* out, int n) { halves<<<1, 32>>>(in, out); }
