// Fault: pairs of halves are read from odd elements: __half2 needs a multiple of 4 bytes.
// n = 128
#include <cuda_fp16.h>

__global__ void neighbours(const __half* in, float* out, int n) {
  const int i = threadIdx.x;
  if (i >= n - 2) {
    out[i] = 0.f;
    return;
  }
  const __half2 pair = *reinterpret_cast<const __half2*>(in + i + 1);  // expect: misaligned
  out[i] = __low2float(pair) + __high2float(pair);
}

extern "C" void solve(const __half* in, float* out, int n) { neighbours<<<1, n>>>(in, out, n); }
