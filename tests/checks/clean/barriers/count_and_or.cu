// Clean: __syncthreads_count() and __syncthreads_or() are barriers too: they order the shared memory around them.
// n = 128
#include <cuda_runtime.h>

__global__ void compact(const float* in, float* out, int n) {
  __shared__ float row[128];
  const int t = threadIdx.x;
  row[t] = in[t];
  const int positive = __syncthreads_count(in[t] > 0.f);
  const float left = row[n - 1 - t];
  if (__syncthreads_or(left > 3.f)) row[t] = 0.f;
  else row[t] = left * positive;
  out[t] = __syncthreads_and(left > -9.f) ? row[(t + 64) % n] : left;
}

extern "C" void solve(const float* in, float* out, int n) { compact<<<1, n>>>(in, out, n); }
