// Clean: the decision to return is read from memory by all threads of the block alike, between two barriers.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kThreads = 64;

__global__ void lengths_of(const float* q, const int* lengths, float* out) {
  __shared__ int length;
  __shared__ float row[kDim];
  const int seq = blockIdx.x, d = threadIdx.x;
  if (d == 0) length = lengths[seq];
  __syncthreads();
  if (length < 20) {
    if (d < kDim) out[seq * kDim + d] = 0.f;
    return;
  }
  if (d >= kDim) row[d - kDim] = q[seq * kDim + d - kDim] * length;
  __syncthreads();
  if (d < kDim) out[seq * kDim + d] = row[d];
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  lengths_of<<<n, kThreads>>>(q, lengths, out);
}
