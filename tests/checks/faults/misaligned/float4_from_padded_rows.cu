// Fault: rows of a shared tile are 33 floats apart against bank conflicts, then read as float4, which needs a multiple
// of 16 bytes.
// n = 128
#include <cuda_runtime.h>

constexpr int kDim = 32, kStride = kDim + 1, kRows = 4;

__global__ void row_sums(const float* in, float* out) {
  __shared__ alignas(16) float tile[kRows * kStride];
  const int row = threadIdx.x / kDim, d = threadIdx.x % kDim;
  tile[row * kStride + d] = in[threadIdx.x];
  __syncthreads();
  float sum = 0.f;
  for (int i = 0; i < kDim; i += 4) {
    const float4 x = *reinterpret_cast<const float4*>(&tile[row * kStride + i]);  // expect: misaligned
    sum += x.x + x.y + x.z + x.w;
  }
  out[threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { row_sums<<<1, kRows * kDim>>>(in, out); }
