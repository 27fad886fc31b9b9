// Clean: splits without keys store weight zero and no values; the merge skips what was never written.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kKeys = 16, kSplits = 4;  // the last split has no keys

__global__ void partial(const float* q, const float* k, const float* v, float* acc, float* sums, int n) {
  const int row = blockIdx.x, split = blockIdx.y, d = threadIdx.x, last = min((split + 1) * kKeys, n);
  float l = 0.f, o = 0.f;
  for (int key = split * kKeys; key < last; ++key) {
    float s = q[row * kDim + d] * k[key * kDim + d];
    for (int offset = 16; offset > 0; offset /= 2) s += __shfl_xor_sync(0xffffffffu, s, offset);
    const float p = expf(0.1767767f * s - 4.f);
    l += p;
    o += p * v[key * kDim + d];
  }
  if (d == 0) sums[row * kSplits + split] = l;
  if (l > 0.f) acc[(row * kSplits + split) * kDim + d] = o;
}

__global__ void merge(const float* acc, const float* sums, float* out) {
  const int row = blockIdx.x, d = threadIdx.x;
  float l = 0.f, o = 0.f;
  for (int split = row * kSplits; split < (row + 1) * kSplits; ++split) {
    if (sums[split] == 0.f) continue;
    l += sums[split];
    o += acc[split * kDim + d];
  }
  out[row * kDim + d] = o / l;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  float *acc, *sums;
  cudaMalloc(&acc, n * kSplits * kDim * sizeof(float));
  cudaMalloc(&sums, n * kSplits * sizeof(float));
  partial<<<dim3(n, kSplits), kDim>>>(q, k, v, acc, sums, n);
  merge<<<n, kDim>>>(acc, sums, out);
  cudaFree(acc);
  cudaFree(sums);
}
