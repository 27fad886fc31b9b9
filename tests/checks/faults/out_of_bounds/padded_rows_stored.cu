// Fault: the grid is rounded up to whole blocks and rows behind the last are stored like the others.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kRows = 16;

__global__ void copy_rows(const float* q, float* out, int n) {
  const int row = blockIdx.x * kRows + threadIdx.y, d = threadIdx.x;
  const float value = row < n ? q[row * kDim + d] : 0.f;
  out[row * kDim + d] = value;  // expect: out_of_bounds
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  copy_rows<<<(n + kRows - 1) / kRows, dim3(kDim, kRows)>>>(q, out, n);
}
