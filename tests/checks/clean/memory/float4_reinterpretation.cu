// Clean: floats are stored one by one and read as float4, and the other way round, across a barrier.
// n = 256
#include <cuda_runtime.h>

__global__ void reverse(const float* in, float* out) {
  __shared__ alignas(16) float row[256];
  const int t = threadIdx.x;
  for (int i = t; i < 256; i += 64) row[i] = in[i];
  __syncthreads();
  const float4 x = reinterpret_cast<const float4*>(row)[63 - t];
  __syncthreads();
  reinterpret_cast<float4*>(row)[t] = make_float4(x.w, x.z, x.y, x.x);
  __syncthreads();
  for (int i = t; i < 256; i += 64) out[i] = row[i];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, 64>>>(in, out); }
