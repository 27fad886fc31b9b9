// Fault: a thread keeps the scores of a tile in a local array, fills those of existing keys and takes the maximum of
// all.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16;

__global__ void largest_score(const float* q, const float* k, float* out, int n) {
  const int row = blockIdx.x * kDim + threadIdx.x;
  if (row >= n) return;
  float m = -INFINITY;
  float scores[kTile];
  for (int j = 0; j < kTile; ++j) {
    const int key = n - n % kTile + j;
    if (key >= n) break;
    scores[j] = q[row * kDim] * k[key * kDim];
  }
  for (int j = 0; j < kTile; ++j) m = fmaxf(m, scores[(j + row) % kTile]);  // expect: uninitialized_read
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = m;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  largest_score<<<(n + kDim - 1) / kDim, kDim>>>(q, k, out, n);
}
