// Fault: a warp raises a volatile flag behind its data with no fence between: the flag may be seen before the data.
// n = 64
#include <cuda_runtime.h>

// Warp 0 finds the maximum, warp 1 waits for it.
__global__ void hand_over(const float* in, float* out) {
  __shared__ float data[32];
  __shared__ volatile int ready;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (warp == 0) {
    data[lane] = in[lane] * 2.f;  // other
    __syncwarp();
    if (lane == 0) ready = 1;
    out[lane] = in[lane];
  } else {
    while (ready == 0) {
    }
    out[threadIdx.x] = data[lane];  // expect: data_race
  }
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, 64>>>(in, out); }
