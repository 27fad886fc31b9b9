// Fault: warps share a "nothing to do" flag as an ordinary variable: some read it while others may set it.
// n = 128
#include <cuda_runtime.h>

__global__ void skip_small(const float* in, float* out) {
  __shared__ bool found;
  if (threadIdx.x == 0) found = false;
  __syncthreads();
  if (in[threadIdx.x] > 1.5f) found = true;  // other
  out[threadIdx.x] = found ? in[threadIdx.x] : 0.f;  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { skip_small<<<1, 128>>>(in, out); }
