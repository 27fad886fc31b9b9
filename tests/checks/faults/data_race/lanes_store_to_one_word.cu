// Fault: two lanes of a warp store different values to one word in one instruction: which one stays is undefined.
// n = 32
#include <cuda_runtime.h>

// Keeps a score for each pair of keys.
__global__ void pairs(const float* in, float* out) {
  __shared__ float kept[16];
  const int lane = threadIdx.x;
  kept[lane / 2] = in[lane];  // expect: data_race // other
  __syncwarp();
  out[lane] = kept[lane / 2];
}

extern "C" void solve(const float* in, float* out, int n) { pairs<<<1, 32>>>(in, out); }
