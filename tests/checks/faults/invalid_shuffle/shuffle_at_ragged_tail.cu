// Fault: the maximum of a warp is found inside `if (key < n)`: at the ragged tail the shuffles' full mask names lanes
// that are not there.
// n = 72
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void largest(const float* in, float* out, int n) {
  const int key = blockIdx.x * kThreads + threadIdx.x;
  if (key < n) {
    float m = in[key];
    for (int offset = 16; offset > 0; offset /= 2)
      m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));  // expect: invalid_shuffle
    out[key] = m;
  }
}

extern "C" void solve(const float* in, float* out, int n) {
  largest<<<(n + kThreads - 1) / kThreads, kThreads>>>(in, out, n);
}
