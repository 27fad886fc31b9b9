// Fault: cp.async copies the whole last tile, keys that do not exist included: no guard, and no source size of zero.
// n = 40
#include <cuda_runtime.h>

constexpr int kDim = 32, kTile = 16, kThreads = 128;

__global__ void score_sum(const float* k, float* out, int n) {
  __shared__ alignas(16) float tile[kTile * kDim];
  float sum = 0.f;
  for (int first = 0; first < n; first += kTile) {
    const int i = threadIdx.x * 4;
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + i));
    const float* from = k + first * kDim + i;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // expect: out_of_bounds
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int j = 0; j < min(kTile, n - first); ++j) sum += tile[j * kDim + threadIdx.x % kDim];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < n * kDim; i += kThreads) out[i] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  score_sum<<<1, kThreads>>>(k, out, n);
}
