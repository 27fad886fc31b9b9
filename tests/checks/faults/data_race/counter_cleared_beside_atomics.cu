// Fault: no barrier between clearing a shared counter and counting: the atomics of the other warps race with the plain
// write, though the warp that cleared it has counted since.
// n = 128
#include <cuda_runtime.h>

__global__ void count_positive(const float* in, float* out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;  // other
  __syncwarp();
  atomicAdd(&count, in[threadIdx.x] > 0.f);  // expect: data_race
  __syncthreads();
  out[threadIdx.x] = count;
}

extern "C" void solve(const float* in, float* out, int n) { count_positive<<<1, n>>>(in, out); }
