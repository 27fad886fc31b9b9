// Fault: the last steps of a reduction are left to one warp without __syncwarp(): since Volta, lanes of a warp do not
// run in lockstep.
// n = 64
#include <cuda_runtime.h>

__global__ void row_sum(const float* in, float* out) {
  __shared__ float sums[32];
  const int lane = threadIdx.x;
  sums[lane] = in[lane] + in[lane + 32];
  __syncwarp();
  for (int half = 16; half > 0; half /= 2)
    if (lane < half) sums[lane] += sums[lane + half];  // expect: data_race // other
  __syncwarp();
  out[lane] = out[lane + 32] = sums[0];
}

extern "C" void solve(const float* in, float* out, int n) { row_sum<<<1, 32>>>(in, out); }
