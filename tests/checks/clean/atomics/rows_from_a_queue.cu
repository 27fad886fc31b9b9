// Clean: warps of all blocks take rows from a counter by atomicAdd of lane 0, and tell the other lanes by a shuffle.
// n = 48
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void scale_rows(const float* q, float* out, int* next, int n) {
  const int lane = threadIdx.x % 32;
  for (;;) {
    int row = 0;
    if (lane == 0) row = atomicAdd(next, 1);
    row = __shfl_sync(0xffffffffu, row, 0);
    if (row >= n) break;
    out[row * kDim + lane] = 2.f * q[row * kDim + lane];
  }
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  int* next;
  cudaMalloc(&next, sizeof(int));
  cudaMemset(next, 0, sizeof(int));
  scale_rows<<<3, 64>>>(q, out, next, n);
  cudaFree(next);
}
