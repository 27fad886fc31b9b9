// Clean: splits of the keys add their shares of a row to out by atomicAdd, after it was cleared.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32, kSplits = 4;

// Grid: (rows, splits).
__global__ void add_values(const float* v, float* out, int n) {
  float acc = 0.f;
  for (int key = blockIdx.y; key < n; key += kSplits) acc += v[key * kDim + threadIdx.x];
  atomicAdd(&out[blockIdx.x * kDim + threadIdx.x], acc);
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  cudaMemset(out, 0, n * kDim * sizeof(float));
  add_values<<<dim3(n, kSplits), kDim>>>(v, out, n);
}
