// Fault: the page number of the next page is fetched one ahead, also behind the last entry of the last table row.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPage = 16, kPagesPerSeq = 4;

__global__ void mean_value(const float* cache, const int* pages, const int* lengths, float* out) {
  const int seq = blockIdx.x, d = threadIdx.x, length = lengths[seq];
  const int* row = pages + seq * kPagesPerSeq;
  float acc = 0.f;
  int page = row[0];
  for (int entry = 0; entry * kPage < length; ++entry) {
    const int next = row[entry + 1];  // expect: out_of_bounds
    for (int slot = 0; slot < min(kPage, length - entry * kPage); ++slot)
      acc += cache[(page * kPage + slot) * kDim + d];
    page = next;
  }
  out[seq * kDim + d] = acc / length;
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  mean_value<<<n, kDim>>>(cache, pages, lengths, out);
}
