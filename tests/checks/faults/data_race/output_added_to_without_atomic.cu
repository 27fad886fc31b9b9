// Fault: blocks add their share of a row to out with += instead of atomicAdd: of two that read the same old value, one
// is lost.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32, kSplits = 4;

// Grid: (rows, splits). The sum of all values, weighted with nothing.
__global__ void add_values(const float* v, float* out, int n) {
  const int row = blockIdx.x, d = threadIdx.x;
  float acc = 0.f;
  for (int key = blockIdx.y; key < n; key += kSplits) acc += v[key * kDim + d];
  out[row * kDim + d] += acc;  // expect: data_race // other
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  cudaMemset(out, 0, n * kDim * sizeof(float));
  add_values<<<dim3(n, kSplits), kDim>>>(v, out, n);
}
