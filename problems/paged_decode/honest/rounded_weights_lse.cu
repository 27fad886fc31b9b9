// Weights are rounded to the type of the queries, as tensor cores take them, and summed after that.
// dtypes: float16, bfloat16, float8_e4m3
// variants: lse
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

// A block for each query head of a sequence: scores in shared memory, then a thread for each dimension of the output.
__global__ void decode(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                       const int* context_lens, T* out, float* lse, int num_heads, int num_kv_heads, int head_dim,
                       int page_size, int columns, float scale) {
  extern __shared__ float scores[];
  const int head = blockIdx.x, seq = blockIdx.y, tid = threadIdx.x;
  const int kv_head = head / (num_heads / num_kv_heads), length = context_lens[seq];
  const int* pages = block_table + seq * columns;
  const T* query = q + (seq * num_heads + head) * head_dim;
  for (int t = tid; t < length; t += blockDim.x) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const KV* key = k_cache + (slot * num_kv_heads + kv_head) * head_dim;
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s += float(query[d]) * float(key[d]);
    scores[t] = s * scale * K_SCALE(kv_head);
  }
  __syncthreads();

  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int t = 0; t < length; ++t) m = fmaxf(m, scores[t]);
  for (int t = 0; t < length; ++t) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const float p = float(T(__expf(scores[t] - m)));
    l += p;
    o += p * float(v_cache[(slot * num_kv_heads + kv_head) * head_dim + tid]);
  }
  o *= V_SCALE(kv_head);
  out[(seq * num_heads + head) * head_dim + tid] = T(length > 0 ? o / l : 0.f);
  if (tid == 0) lse[seq * num_heads + head] = length > 0 ? m + __logf(l) : -INFINITY;
}

extern "C" void solve(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                      const int* context_lens, T* out, float* lse, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  decode<<<dim3(num_heads, num_seqs), head_dim, (max_context_len + 1) * sizeof(float)>>>(
      q, k_cache, v_cache, PASS_SCALES block_table, context_lens, out, lse, num_heads, num_kv_heads, head_dim,
      page_size, max_blocks_per_seq, scale);
}
