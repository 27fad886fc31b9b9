// Mistake: a block for each KV head, but the kernel serves a single query head.
#include <cuda_runtime.h>

constexpr int kThreads = 128;

template <int D>
__global__ void decode(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                       const int* context_lens, float* out, int num_heads, int num_kv_heads, int page_size,
                       int max_blocks_per_seq, float scale) {
  extern __shared__ float scores[];
  __shared__ float red[kThreads];
  int head = blockIdx.x, seq = blockIdx.y, tid = threadIdx.x;
  int kv_head = head / (num_heads / num_kv_heads);
  int len = context_lens[seq];
  const int* table = block_table + seq * max_blocks_per_seq;
  const float* query = q + (seq * num_heads + head) * D;

  // A thread takes a token: its score.
  float local = -INFINITY;
  for (int t = tid; t < len; t += kThreads) {
    size_t slot = (size_t)table[t / page_size] * page_size + t % page_size;
    const float* key = k_cache + (slot * num_kv_heads + kv_head) * D;
    float dot = 0.f;
    for (int d = 0; d < D; ++d) dot += query[d] * key[d];
    scores[t] = dot * scale;
    local = fmaxf(local, scores[t]);
  }
  red[tid] = local;
  __syncthreads();
  for (int n = kThreads / 2; n > 0; n /= 2) {
    if (tid < n) red[tid] = fmaxf(red[tid], red[tid + n]);
    __syncthreads();
  }
  float largest = red[0];
  __syncthreads();  // everybody has read red[0]: it is used again

  // Its weight, and the sum of all.
  local = 0.f;
  for (int t = tid; t < len; t += kThreads) {
    scores[t] = __expf(scores[t] - largest);
    local += scores[t];
  }
  red[tid] = local;
  __syncthreads();
  for (int n = kThreads / 2; n > 0; n /= 2) {
    if (tid < n) red[tid] += red[tid + n];
    __syncthreads();
  }
  float sum = red[0];

  // A thread takes a dimension of the output.
  if (tid < D) {
    float acc = 0.f;
    for (int t = 0; t < len; ++t) {
      size_t slot = (size_t)table[t / page_size] * page_size + t % page_size;
      acc += scores[t] * v_cache[(slot * num_kv_heads + kv_head) * D + tid];
    }
    out[(seq * num_heads + head) * D + tid] = len > 0 ? acc / sum : 0.f;
  }
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  dim3 grid(num_kv_heads, num_seqs);
  size_t shared_bytes = max_context_len * sizeof(float);
  if (head_dim == 64)
    decode<64><<<grid, kThreads, shared_bytes>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                                 num_kv_heads, page_size, max_blocks_per_seq, scale);
  else
    decode<128><<<grid, kThreads, shared_bytes>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                                  num_kv_heads, page_size, max_blocks_per_seq, scale);
}
