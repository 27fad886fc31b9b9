// Clean: a warp hands data to another through a volatile flag, with __threadfence_block() on both sides.
// n = 64
#include <cuda_runtime.h>

__global__ void hand_over(const float* in, float* out) {
  __shared__ float data[32];
  __shared__ volatile int ready;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (warp == 0) {
    data[lane] = in[lane] * 2.f;
    __syncwarp();
    if (lane == 0) {
      __threadfence_block();
      ready = 1;
    }
    out[lane] = in[lane];
  } else {
    while (ready == 0) {
    }
    __threadfence_block();
    out[threadIdx.x] = data[31 - lane];
  }
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, n>>>(in, out); }
