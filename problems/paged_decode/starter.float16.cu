// Paged decode attention in float16.
// All pointers are device pointers; the layouts are drawn in the problem statement (judge.py show paged_decode).
// This file compiles, runs and is not accepted yet: what is missing is rung 1 of the hints, in three steps.
// Judge it:  python judge.py paged_decode this_file.cu
// Numbers are stored in 16 bits; calculate in float: float(x) of an element, Element(y) of a float. Scores, the sum of
// the weights and the weighted sum of values stay in float throughout: an answer from 16-bit sums is refused.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

using Element = __half;  // of q and out
using Cached = __half;  // of the keys and values
constexpr int kWarp = 32;

// The sum over a warp's 32 lanes, in all of them. All 32 must call it.
__device__ __forceinline__ float warp_sum(float x) {
  for (int far = kWarp / 2; far > 0; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
  return x;
}

// Grid: (num_heads, num_seqs), a block for each query head of each sequence. Block: D threads.
// Shared memory: one float for each token of the longest context.
template <int D>
__global__ void __launch_bounds__(D)
paged_decode(const Element* q, const Cached* k_cache, const Cached* v_cache, const int* block_table,
             const int* context_lens, Element* out, int num_heads, int num_kv_heads, int page_size,
             int max_blocks_per_seq, float scale) {
  extern __shared__ float scores[];  // [context]: the score of each token, after step 2 its weight
  const int head = blockIdx.x, seq = blockIdx.y;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int context = context_lens[seq];  // 0 is possible
  const size_t row = (static_cast<size_t>(seq) * num_heads + head) * D;  // where this head begins in q and in out

  // 1. Scores: a warp for each token, D / 32 dimensions for each lane.
  for (int token = warp; token < context; token += D / kWarp) {
    // TODO: the page is block_table[size_t(seq) * max_blocks_per_seq + token / page_size], the slot in it
    // token % page_size; the key stands at
    //   k_cache + ((size_t(page) * page_size + slot) * num_kv_heads + kv_head) * D        [D]
    // with kv_head = head / (num_heads / num_kv_heads). Each lane multiplies dimensions lane, lane + 32, ... of q and
    // key; warp_sum() adds up; times scale.
    // Common mistakes: head % num_kv_heads in the place of the division; an int offset, which overflows in a large
    // cache; scale taken as 1 / sqrt(D); walking to max_context_len, where pages are -1.
    const float score = warp_sum(0.0f);
    if (lane == 0) scores[token] = score;
  }
  __syncthreads();  // all scores are written

  // 2. Softmax over scores[0 .. context - 1].
  float total = 0.0f;
  // TODO: the largest score of the block; then weight = exp(score - largest) in the place of each score; then their
  // sum, in `total` of every thread. Let each warp reduce by shuffles, leave D / 32 numbers in shared memory, and let
  // every thread combine them after a __syncthreads().
  // Common mistakes: no barrier between writing weights and reading them in step 3; one array for both reductions,
  // overwritten by a fast warp while a slow one still reads the maxima; a largest score that starts at 0.

  // 3. Output: thread d owns dimension d.
  float sum = 0.0f;
  // TODO: the sum over all tokens of weight * value[threadIdx.x]; values lie in v_cache as keys lie in k_cache. Then
  // divide by `total`.
  // Common mistakes: reading slots behind the last token, which hold rubbish; 0 / 0 for an empty context.
  out[row + threadIdx.x] = Element(total > 0.0f ? sum / total : 0.0f);  // an empty context gives zeros
}

template <int D>
void launch(const Element* q, const Cached* k_cache, const Cached* v_cache, const int* block_table,
            const int* context_lens, Element* out, int num_seqs, int num_heads, int num_kv_heads, int page_size,
            int max_blocks_per_seq, int max_context_len, float scale) {
  const size_t shared_bytes = max_context_len * sizeof(float);
  if (shared_bytes > 32 * 1024)  // 48 KB, static arrays included, is the most without asking; rung 2 needs none of it
    cudaFuncSetAttribute(paged_decode<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  paged_decode<D><<<dim3(num_heads, num_seqs), D, shared_bytes>>>(
      q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq,
      scale);
}

extern "C" void solve(const __half* q, const __half* k_cache, const __half* v_cache, const int* block_table,
                      const int* context_lens, __half* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  if (head_dim == 64)
    launch<64>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
               max_blocks_per_seq, max_context_len, scale);
  else
    launch<128>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
                max_blocks_per_seq, max_context_len, scale);
}
