// Fault: every thread stores its own maximum as the row's; whichever comes last stays.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void row_max(const float* in, float* out) {
  __shared__ float m;
  m = fmaxf(in[threadIdx.x], in[threadIdx.x + kThreads]);  // expect: data_race // other
  __syncthreads();
  out[threadIdx.x] = out[threadIdx.x + kThreads] = m;
}

extern "C" void solve(const float* in, float* out, int n) { row_max<<<1, kThreads>>>(in, out); }
