// Fault: two warps meet at two named barriers, but in opposite order.
// n = 64
#include <cuda_runtime.h>

__global__ void exchange(const float* in, float* out) {
  __shared__ float keys[64], values[64];
  const int t = threadIdx.x;
  keys[t] = in[t];
  values[t] = 2.f * in[t];
  if (t < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // expect: deadlock
    asm volatile("bar.sync 2, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory");  // expect: deadlock
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  out[t] = keys[63 - t] + values[63 - t];
}

extern "C" void solve(const float* in, float* out, int n) { exchange<<<1, n>>>(in, out); }
