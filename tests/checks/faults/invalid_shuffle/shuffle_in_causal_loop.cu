// Fault: with a causal mask each lane runs over the keys up to its own row, with shuffles of the whole warp in the
// loop: lanes of early rows have left it.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  const float key_of_lane = k[row * kDim];
  float sum = 0.f;
  for (int key = 0; key <= row; ++key)
    sum += q[row * kDim] * __shfl_sync(0xffffffffu, key_of_lane, key);  // expect: invalid_shuffle
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, n>>>(q, k, out, n);
}
