// Fault: splits without keys return before they store a partial result; the merge reads one of every split.
// n = 16
#include <cuda_runtime.h>

constexpr int kDim = 32, kKeys = 6, kSplits = 4;  // 4 splits of 6 keys: the last has none of the 16

__global__ void split_sums(const float* v, float* partial, int n) {
  const int first = blockIdx.x * kKeys;
  if (first >= n) return;
  float acc = 0.f;
  for (int key = first; key < min(first + kKeys, n); ++key) acc += v[key * kDim + threadIdx.x];
  partial[blockIdx.x * kDim + threadIdx.x] = acc;
}

__global__ void merge(const float* partial, float* out) {
  float acc = 0.f;
  for (int split = 0; split < kSplits; ++split)
    acc += partial[split * kDim + threadIdx.x];  // expect: uninitialized_read
  out[blockIdx.x * kDim + threadIdx.x] = acc;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  float* partial;
  cudaMalloc(&partial, kSplits * kDim * sizeof(float));
  split_sums<<<kSplits, kDim>>>(v, partial, n);
  merge<<<n, kDim>>>(partial, out);
  cudaFree(partial);
}
