// Clean: unused entries of the page table are -1 and read ahead, but followed only below the sequence's length.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPage = 16, kPagesPerSeq = 4;

// A warp for each sequence: online softmax over its tokens.
__global__ void decode(const float* q, const float* cache, const int* pages, const int* lengths, float* out) {
  const int seq = blockIdx.x, d = threadIdx.x, length = lengths[seq];
  const float query = q[seq * kDim + d] * 0.1767767f;
  float m = -INFINITY, l = 0.f, acc = 0.f;
  int page = pages[seq * kPagesPerSeq];
  for (int entry = 0; entry * kPage < length; ++entry) {
    const int next = entry + 1 < kPagesPerSeq ? pages[seq * kPagesPerSeq + entry + 1] : -1;
    for (int slot = 0; slot < min(kPage, length - entry * kPage); ++slot) {
      const float value = cache[(page * kPage + slot) * kDim + d];
      float s = query * value;
      for (int offset = 16; offset > 0; offset /= 2) s += __shfl_xor_sync(0xffffffffu, s, offset);
      const float m_new = fmaxf(m, s), correction = expf(m - m_new), p = expf(s - m_new);
      l = l * correction + p;
      acc = acc * correction + p * value;
      m = m_new;
    }
    page = next;
  }
  out[seq * kDim + d] = acc / l;
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  decode<<<n, kDim>>>(q, cache, pages, lengths, out);
}
