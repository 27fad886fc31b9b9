// Fault: a tile of float4 is carved from dynamic shared memory right behind five floats.
// n = 128
#include <cuda_runtime.h>

__global__ void scaled(const float* in, float* out) {
  extern __shared__ float4 raw[];
  float* factors = reinterpret_cast<float*>(raw);
  float4* tile = reinterpret_cast<float4*>(factors + 5);
  const int t = threadIdx.x;
  if (t < 5) factors[t] = 1.f + t;
  tile[t] = reinterpret_cast<const float4*>(in)[t];  // expect: misaligned
  __syncthreads();
  const float4 x = tile[31 - t];
  const float f = factors[t % 5];
  reinterpret_cast<float4*>(out)[t] = make_float4(x.x * f, x.y * f, x.z * f, x.w * f);
}

extern "C" void solve(const float* in, float* out, int n) {
  scaled<<<1, 32, 5 * sizeof(float) + 32 * sizeof(float4)>>>(in, out);
}
