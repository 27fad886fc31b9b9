// Fault: only the lanes with even numbers, which hold the keys of a pair, count valid keys with __syncthreads_count().
// n = 64
#include <cuda_runtime.h>

__global__ void count_keys(const float* in, float* out) {
  int count = 0;
  if (threadIdx.x % 2 == 0) count = __syncthreads_count(in[threadIdx.x] > 0.f);  // expect: barrier_divergence
  out[threadIdx.x] = count;
}

extern "C" void solve(const float* in, float* out, int n) { count_keys<<<1, n>>>(in, out); }
