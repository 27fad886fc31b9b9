// A new maximum, but neither sum nor output is scaled down to it.
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

// A warp for each query head of a sequence, one pass over the tokens; a lane holds every 32nd dimension.
__global__ void decode(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                       const int* context_lens, T* out, int num_heads, int num_kv_heads, int head_dim, int page_size,
                       int columns, float scale) {
  const int head = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x;
  const int kv_head = head / (num_heads / num_kv_heads), length = context_lens[seq];
  const int* pages = block_table + seq * columns;
  const size_t row = size_t(seq * num_heads + head) * head_dim;
  float m = -INFINITY, l = 0.f, o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int t = 0; t < length; ++t) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const size_t base = (slot * num_kv_heads + kv_head) * head_dim;
    float s = 0.f;
    for (int d = lane; d < head_dim; d += 32) s += float(q[row + d]) * float(k_cache[base + d]);
    for (int lanes = 16; lanes > 0; lanes /= 2) s += __shfl_xor_sync(0xffffffffu, s, lanes);
    s *= scale * K_SCALE(kv_head);
    const float top = fmaxf(m, s), correction = __expf(m - top), p = __expf(s - top);
    l = l + p;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = lane + 32 * i;
      if (d < head_dim) o[i] = o[i] + p * float(v_cache[base + d]);
    }
    m = top;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int d = lane + 32 * i;
    if (d < head_dim) out[row + d] = T(length > 0 ? o[i] / l * V_SCALE(kv_head) : 0.f);
  }
}

extern "C" void solve(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                      const int* context_lens, T* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                      int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  decode<<<dim3(num_heads, num_seqs), 32>>>(q, k_cache, v_cache, PASS_SCALES block_table, context_lens, out, num_heads,
                                            num_kv_heads, head_dim, page_size, max_blocks_per_seq, scale);
}
