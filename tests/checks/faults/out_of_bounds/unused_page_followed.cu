// Fault: the loop runs over all entries of a sequence's page table and follows the -1 of those not used.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPage = 16, kPagesPerSeq = 4;

__global__ void mean_value(const float* cache, const int* pages, const int* lengths, float* out) {
  const int seq = blockIdx.x, d = threadIdx.x;
  float acc = 0.f;
  for (int entry = 0; entry < kPagesPerSeq; ++entry) {
    const int page = pages[seq * kPagesPerSeq + entry];
    for (int slot = 0; slot < kPage; ++slot) {
      const float weight = entry * kPage + slot < lengths[seq] ? 1.f : 0.f;
      acc += weight * cache[(page * kPage + slot) * kDim + d];  // expect: out_of_bounds
    }
  }
  out[seq * kDim + d] = acc / lengths[seq];
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  mean_value<<<n, kDim>>>(cache, pages, lengths, out);
}
