// Fault: the index of the best key is a variable that is assigned only where a score beats zero: some rows have none.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void best_key(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  float m = 0.f;
  int best;
  for (int key = 0; key < 2; ++key) {
    const float s = q[row * kDim] * k[key * kDim];
    if (s > m) {  // expect: uninitialized_read
      m = s;
      best = key;
    }
  }
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = m;
  out[row * kDim] = best * 2.f;  // expect: uninitialized_read
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  best_key<<<1, n>>>(q, k, out, n);
}
