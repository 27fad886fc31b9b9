// Clean: lanes leave a causal loop at different turns; the full-mask shuffles stand behind it, where all meet again.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  float sum = 0.f;
  for (int key = 0; key <= row; ++key) sum += q[row * kDim] * k[key * kDim];
  __syncwarp();
  for (int offset = 16; offset > 0; offset /= 2) sum = fmaxf(sum, __shfl_xor_sync(0xffffffffu, sum, offset));
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, n>>>(q, k, out, n);
}
