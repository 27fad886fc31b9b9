// Fault: cp.async copies 16 bytes into rows that are 34 floats apart: every second row begins off a 16-byte boundary.
// n = 128
#include <cuda_runtime.h>

constexpr int kDim = 32, kStride = 34, kRows = 4;

__global__ void column_sums(const float* in, float* out) {
  __shared__ alignas(16) float tile[kRows * kStride];
  const int row = threadIdx.x / 8, d = threadIdx.x % 8 * 4;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[row * kStride + d]));
  const float* from = in + row * kDim + d;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // expect: misaligned
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  float sum = 0.f;
  for (int r = 0; r < kRows; ++r) sum += tile[r * kStride + threadIdx.x];
  for (int r = 0; r < kRows; ++r) out[r * kDim + threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { column_sums<<<1, kDim>>>(in, out); }
