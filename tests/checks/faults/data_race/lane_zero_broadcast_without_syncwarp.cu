// Fault: lane 0 stores the row maximum and all lanes of its warp read it, with no __syncwarp() between.
// n = 128
#include <cuda_runtime.h>

constexpr int kWarps = 4;

__global__ void softmax_numerators(const float* in, float* out) {
  __shared__ float row_max[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float score = in[threadIdx.x];
  float m = score;
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_down_sync(0xffffffffu, m, offset));
  if (lane == 0) row_max[warp] = m;  // other
  out[threadIdx.x] = expf(score - row_max[warp]);  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { softmax_numerators<<<1, 32 * kWarps>>>(in, out); }
