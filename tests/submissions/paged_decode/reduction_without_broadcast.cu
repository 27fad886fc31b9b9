// Mistake: __shfl_down leaves the whole sum in lane 0 only; the others go on with a part of it.
#include <cuda_runtime.h>

constexpr int kThreads = 32;  // one warp for a query head

template <int D>
__global__ void decode(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                       const int* context_lens, float* out, int num_heads, int num_kv_heads, int page_size,
                       int max_blocks_per_seq, float scale) {
  constexpr int kDims = D / 32;  // of each lane
  int head = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x;
  int kv_head = head / (num_heads / num_kv_heads);
  int len = context_lens[seq];
  const int* table = block_table + seq * max_blocks_per_seq;
  int row = seq * num_heads + head;

  float query[kDims], o[kDims];
  for (int i = 0; i < kDims; ++i) {
    query[i] = q[row * D + lane + 32 * i] * scale;
    o[i] = 0.f;
  }
  float m = -INFINITY, l = 0.f;
  for (int t = 0; t < len; ++t) {
    size_t slot = (size_t)table[t / page_size] * page_size + t % page_size;
    size_t offset = (slot * num_kv_heads + kv_head) * D + lane;
    float score = 0.f;
    for (int i = 0; i < kDims; ++i) score += query[i] * k_cache[offset + 32 * i];
    for (int n = 16; n > 0; n /= 2) score += __shfl_down_sync(0xffffffff, score, n);

    float m_new = fmaxf(m, score);
    float correction = __expf(m - m_new);
    float p = __expf(score - m_new);
    l = l * correction + p;
    for (int i = 0; i < kDims; ++i) o[i] = o[i] * correction + p * v_cache[offset + 32 * i];
    m = m_new;
  }
  for (int i = 0; i < kDims; ++i) out[row * D + lane + 32 * i] = l > 0.f ? o[i] / l : 0.f;
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  dim3 grid(num_heads, num_seqs);
  if (head_dim == 64)
    decode<64><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                   num_kv_heads, page_size, max_blocks_per_seq, scale);
  else
    decode<128><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                    num_kv_heads, page_size, max_blocks_per_seq, scale);
}
