// Clean: the pages of a sequence are gathered by cp.async; entries of -1 are not followed, and the slots behind the
// last token are neither copied nor read.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPage = 16, kPagesPerSeq = 4, kThreads = 128;

__global__ void mean_value(const float* cache, const int* pages, const int* lengths, float* out) {
  __shared__ alignas(16) float tokens[kPage][kDim];
  const int seq = blockIdx.x, length = lengths[seq];
  float sum = 0.f;
  for (int entry = 0; entry < kPagesPerSeq; ++entry) {
    const int page = pages[seq * kPagesPerSeq + entry];
    if (page < 0) break;
    const int slot = threadIdx.x / 8, d = threadIdx.x % 8 * 4, used = min(kPage, length - entry * kPage);
    if (slot < used) {
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tokens[slot][d]));
      const float* from = cache + (page * kPage + slot) * kDim + d;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < kDim)
      for (int token = 0; token < used; ++token) sum += tokens[token][threadIdx.x];
    __syncthreads();
  }
  if (threadIdx.x < kDim) out[seq * kDim + threadIdx.x] = sum / length;
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  mean_value<<<n, kThreads>>>(cache, pages, lengths, out);
}
