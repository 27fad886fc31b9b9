// Split-K: parts of 64 tokens, merged by a second kernel.
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

constexpr int kPart = 64;  // tokens

// A block for each part of a head's context: its maximum and sum, and its weighted values, to scratch memory.
__global__ void decode_part(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                            const int* context_lens, float* part_o, float2* part_ml, int num_heads, int num_kv_heads,
                            int head_dim, int page_size, int columns, float scale) {
  __shared__ float scores[kPart];
  const int head = blockIdx.x, seq = blockIdx.y, part = blockIdx.z, tid = threadIdx.x;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int first = part * kPart, last = min(first + kPart, context_lens[seq]);
  if (first >= last) return;
  const int* pages = block_table + seq * columns;
  const T* query = q + (seq * num_heads + head) * head_dim;
  for (int t = first + tid; t < last; t += blockDim.x) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const KV* key = k_cache + (slot * num_kv_heads + kv_head) * head_dim;
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) s += float(query[d]) * float(key[d]);
    scores[t - first] = s * scale * K_SCALE(kv_head);
  }
  __syncthreads();

  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int t = first; t < last; ++t) m = fmaxf(m, scores[t - first]);
  for (int t = first; t < last; ++t) {
    const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
    const float p = __expf(scores[t - first] - m);
    l += p;
    o += p * float(v_cache[(slot * num_kv_heads + kv_head) * head_dim + tid]);
  }
  const size_t place = (size_t(seq) * num_heads + head) * gridDim.z + part;
  part_o[place * head_dim + tid] = o * V_SCALE(kv_head);
  if (tid == 0) part_ml[place] = make_float2(m, l);
}

// A block for each head of a sequence: the parts that there are, scaled to the largest maximum.
__global__ void merge(const float* part_o, const float2* part_ml, const int* context_lens, T* out, int head_dim,
                      int columns) {
  const size_t row = size_t(blockIdx.y) * gridDim.x + blockIdx.x;
  const int parts = (context_lens[blockIdx.y] + kPart - 1) / kPart;
  float top = -INFINITY, sum = 0.f, o = 0.f;
  for (int s = 0; s < parts; ++s) top = fmaxf(top, part_ml[row * columns + s].x);
  for (int s = 0; s < parts; ++s) {
    const float2 ml = part_ml[row * columns + s];
    const float correction = __expf(ml.x - top);
    sum += correction * ml.y;
    o += correction * part_o[(row * columns + s) * head_dim + threadIdx.x];
  }
  out[row * head_dim + threadIdx.x] = T(parts > 0 ? o / sum : 0.f);
}

extern "C" void solve(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                      const int* context_lens, T* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                      int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const int parts = max_context_len > 0 ? (max_context_len + kPart - 1) / kPart : 1;
  const size_t places = size_t(num_seqs) * num_heads * parts;
  float* part_o;
  float2* part_ml;
  cudaMalloc(&part_o, places * head_dim * sizeof(float));
  cudaMalloc(&part_ml, places * sizeof(float2));
  decode_part<<<dim3(num_heads, num_seqs, parts), head_dim>>>(
      q, k_cache, v_cache, PASS_SCALES block_table, context_lens, part_o, part_ml, num_heads, num_kv_heads, head_dim,
      page_size, max_blocks_per_seq, scale);
  merge<<<dim3(num_heads, num_seqs), head_dim>>>(part_o, part_ml, context_lens, out, head_dim, parts);
  cudaFree(part_o);
  cudaFree(part_ml);
}
