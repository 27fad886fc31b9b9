// Clean: each thread stores to its own slots and reads them back: a thread's own accesses are in order.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void doubled(const float* in, float* out) {
  __shared__ float scores[2][kThreads];
  const int t = threadIdx.x;
  scores[0][t] = in[t];
  scores[1][t] = scores[0][t] * 2.f;
  scores[0][t] = scores[1][t] + 1.f;
  out[t] = scores[0][t];
}

extern "C" void solve(const float* in, float* out, int n) { doubled<<<1, kThreads>>>(in, out); }
