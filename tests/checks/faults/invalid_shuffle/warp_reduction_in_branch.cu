// Fault: __reduce_max_sync() of the whole warp is called by the lanes with a positive score only.
// n = 32
#include <cuda_runtime.h>

__global__ void largest(const float* in, float* out) {
  unsigned m = 0;
  const float x = in[threadIdx.x];
  if (x > 0.f) m = __reduce_max_sync(0xffffffffu, static_cast<unsigned>(x * 1024.f));  // expect: invalid_shuffle
  out[threadIdx.x] = m;
}

extern "C" void solve(const float* in, float* out, int n) { largest<<<1, 32>>>(in, out); }
