// Clean: a block's limit in shared memory is read behind && where there is one. The compiler may load it before it
// asks, and drop what it got.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void clipped(const float* in, float* out, int limited) {
  __shared__ float limit;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (limited && threadIdx.x == 0) limit = in[0];
  __syncthreads();
  const float x = in[i];
  if (limited && x > limit && i % 2 == 0) {
    out[i] = 0.f;
    return;
  }
  out[i] = x;
}

extern "C" void solve(const float* in, float* out, int n) { clipped<<<n / kThreads, kThreads>>>(in, out, n > 1000); }
