// Clean: the best key is assigned under one condition and used under another that never holds without the first.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void best_key(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  float m = 0.f;
  int best;
  bool found = false;
  for (int key = 0; key < 2; ++key) {
    const float s = q[row * kDim] * k[key * kDim];
    if (s > m) {
      m = s;
      best = key;
      found = true;
    }
  }
  float score = -1.f;
  if (found) score = q[row * kDim + 1] * k[best * kDim + 1];
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = score;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  best_key<<<1, n>>>(q, k, out, n);
}
