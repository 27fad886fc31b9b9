// Fault: numbers are read four at a time though their count is no multiple of four: the last read crosses the end.
// n = 126
#include <cuda_runtime.h>

__global__ void double_all(const float* in, float* out, int n) {
  const int i = threadIdx.x;
  if (i * 4 >= n) return;
  const float4 x = reinterpret_cast<const float4*>(in)[i];  // expect: out_of_bounds
  const float values[4] = {x.x, x.y, x.z, x.w};
  for (int j = 0; j < 4 && i * 4 + j < n; ++j) out[i * 4 + j] = 2.f * values[j];
}

extern "C" void solve(const float* in, float* out, int n) { double_all<<<1, 32>>>(in, out, n); }
