// Each lane has a softmax of its own over every 32nd token, and the 32 are merged at the end.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#define KV_ELEMENT float
#endif
#if FP8_SCALES  // solve() takes a factor for the keys and the values of each KV head
#define SCALES const float *k_scale, const float *v_scale,
#define K_SCALE(head) k_scale[head]
#define V_SCALE(head) v_scale[head]
#define PASS_SCALES k_scale, v_scale,
#else
#define SCALES
#define K_SCALE(head) 1.f
#define V_SCALE(head) 1.f
#define PASS_SCALES
#endif
using T = ELEMENT;
using KV = KV_ELEMENT;

// A warp for each query head of a sequence; each lane has a softmax of its own over every 32nd token.
template <int D>
__global__ void decode(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                       const int* context_lens, T* out, int num_heads, int num_kv_heads, int page_size, int columns,
                       float scale) {
  const int head = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x;
  const int kv_head = head / (num_heads / num_kv_heads), length = context_lens[seq];
  const int* pages = block_table + seq * columns;
  const size_t row = size_t(seq * num_heads + head) * D;
  float m = -INFINITY, l = 0.f, o[D];
  for (int d = 0; d < D; ++d) o[d] = 0.f;
  for (int t = lane; t < length; t += 32) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const size_t base = (slot * num_kv_heads + kv_head) * D;
    float even = 0.f, odd = 0.f;
    for (int d = 0; d < D; d += 2) {
      even += float(q[row + d]) * float(k_cache[base + d]);
      odd += float(q[row + d + 1]) * float(k_cache[base + d + 1]);
    }
    const float s = (even + odd) * scale * K_SCALE(kv_head);
    const float top = fmaxf(m, s), correction = __expf(m - top), p = __expf(s - top);
    l = l * correction + p;
    for (int d = 0; d < D; ++d) o[d] = o[d] * correction + p * float(v_cache[base + d]);
    m = top;
  }
  float top = m;
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
  const float weight = l > 0.f ? __expf(m - top) : 0.f;
  float sum = l * weight;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  for (int d = 0; d < D; ++d) {
    float total = o[d] * weight;
    for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
    if (lane == d % 32) out[row + d] = T(sum > 0.f ? total / sum * V_SCALE(kv_head) : 0.f);
  }
}

extern "C" void solve(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                      const int* context_lens, T* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                      int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_heads, num_seqs);
  if (head_dim == 64)
    decode<64><<<grid, 32>>>(q, k_cache, v_cache, PASS_SCALES block_table, context_lens, out, num_heads, num_kv_heads,
                             page_size, max_blocks_per_seq, scale);
  else
    decode<128><<<grid, 32>>>(q, k_cache, v_cache, PASS_SCALES block_table, context_lens, out, num_heads, num_kv_heads,
                              page_size, max_blocks_per_seq, scale);
}
