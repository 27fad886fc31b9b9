// Fault: rows of the K tile behind the last key are not filled, but used: their scores are masked only after the
// maximum has been taken.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 64;

__global__ void largest_score(const float* q, const float* k, float* out, int n) {
  __shared__ float tile[kTile][kDim];
  const int first = n / kTile * kTile, row = min(int(threadIdx.x), n - 1);  // the last tile alone
  for (int i = threadIdx.x; i < kTile * kDim; i += kThreads)
    if (first + i / kDim < n) tile[i / kDim][i % kDim] = k[first * kDim + i];
  __syncthreads();
  float m = -INFINITY;
  for (int j = 0; j < kTile; ++j) {
    float s = 0.f;
    for (int d = 0; d < kDim; ++d) s += q[row * kDim + d] * tile[j][d];  // expect: uninitialized_read
    m = fmaxf(m, s);
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = m;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  largest_score<<<1, kThreads>>>(q, k, out, n);
}
