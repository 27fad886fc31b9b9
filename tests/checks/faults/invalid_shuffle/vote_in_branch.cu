// Fault: lanes with a positive score ask with a full mask whether any of them must rescale; the others took the other
// branch.
// n = 64
#include <cuda_runtime.h>

__global__ void rescale(const float* in, float* out) {
  const float x = in[threadIdx.x];
  float scaled = x;
  if (x > 0.f && __any_sync(0xffffffffu, x > 1.f)) scaled = x * 0.5f;  // expect: invalid_shuffle
  out[threadIdx.x] = scaled;
}

extern "C" void solve(const float* in, float* out, int n) { rescale<<<1, n>>>(in, out); }
