// Paged decode attention. All pointers are device pointers; the layouts are in the problem statement.
// Judge it:  python judge.py paged_decode this_file.cu

#include <cuda_runtime.h>

// One block for each (query head, sequence), one thread for each of the head's dimensions.
__global__ void paged_decode(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                             const int* context_lens, float* out, int num_heads, int num_kv_heads, int head_dim,
                             int page_size, int max_blocks_per_seq, float scale) {
  const int head = blockIdx.x, seq = blockIdx.y, d = threadIdx.x;

  // TODO: for each token t below context_lens[seq], find its page, block_table[seq][t / page_size], and its slot in
  // the page, t % page_size. Its keys and values are those of kv head  head / (num_heads / num_kv_heads).
  // Then softmax over the scores q . k * scale, and the weighted sum of the values. An empty context gives zeros.
  out[(static_cast<size_t>(seq) * num_heads + head) * head_dim + d] = 0.0f;
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                      int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_heads, num_seqs);
  paged_decode<<<grid, head_dim>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads,
                                   head_dim, page_size, max_blocks_per_seq, scale);
}
