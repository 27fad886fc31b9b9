// Fault: __syncwarp() with its full default mask in a branch that half of the warp takes.
// n = 32
#include <cuda_runtime.h>

__global__ void fold(const float* in, float* out) {
  __shared__ float row[32];
  const int lane = threadIdx.x;
  row[lane] = in[lane];
  __syncwarp();
  if (lane < 16) {
    row[lane] += row[lane + 16];
    __syncwarp();  // expect: invalid_shuffle
    out[lane] = row[15 - lane];
  }
  out[lane + (lane < 16 ? 16 : 0)] = in[lane];
}

extern "C" void solve(const float* in, float* out, int n) { fold<<<1, 32>>>(in, out); }
