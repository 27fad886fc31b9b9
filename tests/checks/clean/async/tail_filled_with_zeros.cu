// Clean: rows behind the last key have a source size of zero: cp.async reads nothing there and stores zeros. Their
// addresses lie outside of K.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 128;

__global__ void score_sum(const float* q, const float* k, float* out, int n) {
  __shared__ alignas(16) float tile[kTile][kDim];
  const int row = threadIdx.x;
  float sum = 0.f;
  for (int first = 0; first < n; first += kTile) {
    const int j = threadIdx.x / 8, d = threadIdx.x % 8 * 4, bytes = first + j < n ? 16 : 0;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[j][d]));
    const float* from = k + (first + j) * kDim + d;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    if (row < n)
      for (int key = 0; key < kTile; ++key) sum += q[row * kDim] * tile[key][row % kDim];
    __syncthreads();
  }
  if (row < n)
    for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(q, k, out, n);
}
