// tests/submissions/paged_decode/chapter.cu as plain C++: blocks, warps and lanes are loops, a shuffle is a loop over
// the 32 values of a warp. Built and called by tests/bench_plain.py.
#include <algorithm>
#include <cmath>
#include <cstddef>

namespace {

constexpr int PAGE = 16;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxContext = 4096;

float sum_over_warp(float (&x)[32]) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    float other[32];
    for (int lane = 0; lane < 32; ++lane) other[lane] = x[lane ^ mask];
    for (int lane = 0; lane < 32; ++lane) x[lane] += other[lane];
  }
  return x[0];
}

template <int D>
struct Decode {
  const float *q, *k_cache, *v_cache;
  const int *block_table, *context_lens;
  float* out;
  int num_heads, num_kv_heads, max_blocks_per_seq;
  float scale;
  float scores[kMaxContext];  // shared memory

  void block(int head, int seq) {
    const int kv_head = head / (num_heads / num_kv_heads), context = context_lens[seq];
    const int* pages = block_table + static_cast<std::size_t>(seq) * max_blocks_per_seq;
    const std::size_t row = static_cast<std::size_t>(seq) * num_heads + head;
    const float biggest = score(row, kv_head, context, pages);
    const float inverse = 1.f / softmax(context, biggest);
    output(row, kv_head, context, pages, inverse);
  }

  std::size_t slot(const int* pages, int token) const {
    return static_cast<std::size_t>(pages[token / PAGE]) * PAGE + token % PAGE;
  }

  float score(std::size_t row, int kv_head, int context, const int* pages) {
    float query[D];
    for (int d = 0; d < D; ++d) query[d] = q[row * D + d] * scale;
    float biggest = -INFINITY;
    for (int warp = 0; warp < kWarps; ++warp)
      for (int token = warp; token < context; token += kWarps) {
        const float* key = k_cache + (slot(pages, token) * num_kv_heads + kv_head) * D;
        float lanes[32] = {};
        for (int i = 0; i < D / 32; ++i)
          for (int lane = 0; lane < 32; ++lane) lanes[lane] += query[32 * i + lane] * key[32 * i + lane];
        scores[token] = sum_over_warp(lanes);
        biggest = std::max(biggest, scores[token]);
      }
    return biggest;
  }

  float softmax(int context, float biggest) {
    float sums[kThreads] = {};
    for (int t = 0; t < kThreads; ++t)
      for (int token = t; token < context; token += kThreads) {
        scores[token] = std::exp(scores[token] - biggest);
        sums[t] += scores[token];
      }
    float sum = 0.f;
    for (int t = 0; t < kThreads; ++t) sum += sums[t];
    return sum;
  }

  void output(std::size_t row, int kv_head, int context, const int* pages, float inverse) {
    float acc[D] = {};
    for (int token = 0; token < context; ++token) {
      const float* value = v_cache + (slot(pages, token) * num_kv_heads + kv_head) * D;
      for (int d = 0; d < D; ++d) acc[d] += scores[token] * value[d];
    }
    for (int d = 0; d < D; ++d) out[row * D + d] = acc[d] * inverse;
  }
};

template <int D>
void paged_attention(const Decode<D>& arguments, int num_seqs) {
  static Decode<D> decode;
  decode = arguments;
  for (int seq = 0; seq < num_seqs; ++seq)
    for (int head = 0; head < decode.num_heads; ++head) decode.block(head, seq);
}

}  // namespace

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int, int max_blocks_per_seq, int, float scale) {
  if (head_dim == 64)
    paged_attention<64>({q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads,
                         max_blocks_per_seq, scale, {}}, num_seqs);
  else
    paged_attention<128>({q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads,
                          max_blocks_per_seq, scale, {}}, num_seqs);
}
