// Clean: warps come to barrier 0 from different lines of the program; all of them come, which is what PTX asks for.
// n = 64
#include <cuda_runtime.h>

__global__ void specialise(const float* in, float* out) {
  __shared__ float row[64];
  if (threadIdx.x < 32) {
    row[threadIdx.x] = in[threadIdx.x];
    asm volatile("bar.sync 0;" ::: "memory");
  } else {
    row[threadIdx.x] = 2.f * in[threadIdx.x];
    asm volatile("bar.sync 0;" ::: "memory");
  }
  out[threadIdx.x] = row[63 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { specialise<<<1, n>>>(in, out); }
