// Three steps, with the structure of the handbook's teaching kernel: scores into shared memory, a warp for each
// token; softmax over the block; a thread for each output dimension. Pages hold 16 tokens, contexts 1 to 4096.
#include <cuda_runtime.h>

constexpr int PAGE = 16;
constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kMaxContext = 4096;

__device__ __forceinline__ float sum_over_warp(float x) {
  for (int mask = 16; mask > 0; mask >>= 1) x += __shfl_xor_sync(0xffffffff, x, mask);
  return x;
}

__device__ __forceinline__ float max_over_warp(float x) {
  for (int mask = 16; mask > 0; mask >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, mask));
  return x;
}

template <int D>
__global__ void __launch_bounds__(kThreads)
paged_attention(const float* __restrict__ q, const float* __restrict__ k_cache, const float* __restrict__ v_cache,
                const int* __restrict__ block_table, const int* __restrict__ context_lens, float* __restrict__ out,
                int num_heads, int num_kv_heads, int max_blocks_per_seq, float scale) {
  static_assert(D % 32 == 0 && D <= kThreads, "a lane takes D / 32 dimensions, a thread one output");
  constexpr int kPerLane = D / 32;
  __shared__ float scores[kMaxContext];
  __shared__ float partial[kWarps];

  const int head = blockIdx.x, seq = blockIdx.y, tid = threadIdx.x;
  const int warp = tid / 32, lane = tid % 32;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int context = context_lens[seq];
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  const size_t row = static_cast<size_t>(seq) * num_heads + head;

  float query[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) query[i] = q[row * D + 32 * i + lane] * scale;

  // Scores.
  float biggest = -INFINITY;
  for (int token = warp; token < context; token += kWarps) {
    const size_t slot = static_cast<size_t>(pages[token / PAGE]) * PAGE + token % PAGE;
    const float* key = k_cache + (slot * num_kv_heads + kv_head) * D;
    float score = 0.f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) score += query[i] * key[32 * i + lane];
    score = sum_over_warp(score);
    if (lane == 0) scores[token] = score;
    biggest = fmaxf(biggest, score);
  }

  // Softmax. Every warp reduces the four partial results for itself.
  if (lane == 0) partial[warp] = biggest;
  __syncthreads();
  biggest = max_over_warp(lane < kWarps ? partial[lane] : -INFINITY);
  __syncthreads();  // partial is used again
  float sum = 0.f;
  for (int token = tid; token < context; token += kThreads) {
    const float weight = __expf(scores[token] - biggest);
    scores[token] = weight;
    sum += weight;
  }
  sum = sum_over_warp(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  const float inverse = 1.f / sum_over_warp(lane < kWarps ? partial[lane] : 0.f);

  // Output.
  if (tid < D) {
    float acc = 0.f;
    for (int token = 0; token < context; ++token) {
      const size_t slot = static_cast<size_t>(pages[token / PAGE]) * PAGE + token % PAGE;
      acc += scores[token] * v_cache[(slot * num_kv_heads + kv_head) * D + tid];
    }
    out[row * D + tid] = acc * inverse;
  }
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_heads, num_seqs);
  if (head_dim == 64)
    paged_attention<64><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                            num_kv_heads, max_blocks_per_seq, scale);
  else
    paged_attention<128><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                             num_kv_heads, max_blocks_per_seq, scale);
}
