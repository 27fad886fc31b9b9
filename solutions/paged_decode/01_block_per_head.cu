// Paged decode attention, rung 1: a thread block per (sequence, query head), scores in shared memory.
//
// Idea      Softmax needs the largest score before it can weigh any value, so keep all scores of the head:
//           1. a warp takes a token: its lanes multiply q and K dimension by dimension and add up across the warp;
//           2. the block finds the largest score, replaces each score by its exponential, and adds them up;
//           3. thread d owns output dimension d and walks over the tokens: neighbouring threads read neighbouring V.
// Cost      A (sequence, head) reads 2 * context * head_dim floats of K and V. With grouped queries each KV head is
//           read once for every query head that shares it: num_heads / num_kv_heads times too often.
//           Shared memory: 4 bytes a token, so the context is limited by what a block may have: 227 KB on an H100,
//           some 58,000 tokens.
// Gain      The first of the ladder: what the others are set against.
// Measured  no score: keeps the scores of a whole context in shared memory: 65,536 tokens and more do not fit.
// Modelled  k_cache and v_cache 4.0 times (a group of 4 query heads), block_table 636 times; traffic score 24.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

// Block: D threads, one for each output dimension. Grid: (num_heads, num_seqs).
template <int D>
__global__ void __launch_bounds__(D)
decode_block_per_head(const float* __restrict__ q, const float* __restrict__ k_cache,
                      const float* __restrict__ v_cache, const int* __restrict__ block_table,
                      const int* __restrict__ context_lens, float* __restrict__ out, int num_heads,
                      int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  constexpr int kWarps = D / kWarp;
  constexpr int kDimsPerLane = D / kWarp;
  extern __shared__ float scores[];  // one for each token of the context
  __shared__ float warp_maxima[kWarps];
  __shared__ float warp_sums[kWarps];  // not warp_maxima again: a slow warp may still be reading that

  const int head = blockIdx.x, seq = blockIdx.y;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int context = context_lens[seq];
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  const size_t token_stride = static_cast<size_t>(num_kv_heads) * D;  // floats from one slot of a page to the next
  const size_t head_offset = (static_cast<size_t>(seq) * num_heads + head) * D;

  float query[kDimsPerLane];
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) query[i] = q[head_offset + lane + i * kWarp] * scale;

  // 1. Scores.
  float largest = -INFINITY;
  for (int token = warp; token < context; token += kWarps) {
    const size_t slot = static_cast<size_t>(pages[token / page_size]) * page_size + token % page_size;
    const float* key = k_cache + slot * token_stride + kv_head * D;
    float dot = 0.f;
#pragma unroll
    for (int i = 0; i < kDimsPerLane; ++i) dot += query[i] * key[lane + i * kWarp];
    dot = warp_sum(dot);
    if (lane == 0) scores[token] = dot;
    largest = fmaxf(largest, dot);
  }

  // 2. Softmax: the largest score of the block, then exponentials and their sum.
  if (lane == 0) warp_maxima[warp] = largest;
  __syncthreads();  // all scores and maxima are written
  largest = warp_max(lane < kWarps ? warp_maxima[lane] : -INFINITY);

  float sum = 0.f;
  for (int token = threadIdx.x; token < context; token += D) {
    const float weight = __expf(scores[token] - largest);
    scores[token] = weight;
    sum += weight;
  }
  sum = warp_sum(sum);
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();  // all weights and sums are written
  sum = warp_sum(lane < kWarps ? warp_sums[lane] : 0.f);

  // 3. Output, page by page: one look into the block table serves a whole page.
  float acc = 0.f;
  for (int first = 0; first < context; first += page_size) {
    const size_t slot = static_cast<size_t>(pages[first / page_size]) * page_size;
    const float* value = v_cache + slot * token_stride + kv_head * D + threadIdx.x;
    const int count = min(page_size, context - first);
    for (int i = 0; i < count; ++i) acc += scores[first + i] * value[i * token_stride];
  }
  out[head_offset + threadIdx.x] = context > 0 ? acc / sum : 0.f;  // nothing to attend to: zeros
}

template <int D>
void launch(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
            const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int page_size,
            int max_blocks_per_seq, int max_context_len, float scale) {
  const size_t shared_bytes = max_context_len * sizeof(float);
  if (shared_bytes > 32 * 1024)  // together with the static arrays, 48 KB is the most without asking
    cudaFuncSetAttribute(decode_block_per_head<D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(shared_bytes));
  decode_block_per_head<D><<<dim3(num_heads, num_seqs), D, shared_bytes>>>(
      q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq,
      scale);
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  if (head_dim == 64)
    launch<64>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
               max_blocks_per_seq, max_context_len, scale);
  else
    launch<128>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
                max_blocks_per_seq, max_context_len, scale);
}
