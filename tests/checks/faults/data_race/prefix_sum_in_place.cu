// Fault: a prefix sum in place has one barrier a step instead of two: an element is overwritten before its right
// neighbour has read it.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void prefix_sum(const float* in, float* out) {
  __shared__ float sums[kThreads];
  const int t = threadIdx.x;
  sums[t] = in[t];
  __syncthreads();
  for (int step = 1; step < kThreads; step *= 2) {
    const float left = t >= step ? sums[t - step] : 0.f;  // other
    sums[t] += left;  // expect: data_race
    __syncthreads();
  }
  out[t] = sums[t];
}

extern "C" void solve(const float* in, float* out, int n) { prefix_sum<<<1, kThreads>>>(in, out); }
