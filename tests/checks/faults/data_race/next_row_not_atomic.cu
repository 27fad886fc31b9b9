// Fault: blocks take the next row from a counter with an ordinary increment: two of them may get the same row, and one
// row is left out.
// n = 16
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void copy_rows(const float* q, float* out, int* next) {
  int row = 0;
  if (threadIdx.x == 0) row = (*next)++;  // expect: data_race // other
  row = __shfl_sync(0xffffffffu, row, 0);
  out[row * kDim + threadIdx.x] = q[row * kDim + threadIdx.x];
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  int* next;
  cudaMalloc(&next, sizeof(int));
  cudaMemset(next, 0, sizeof(int));
  copy_rows<<<n, kDim>>>(q, out, next);
  cudaFree(next);
}
