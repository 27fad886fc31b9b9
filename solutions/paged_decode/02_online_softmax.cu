// Paged decode attention, rung 2: online softmax, no score buffer.
//
// Idea      A warp keeps the running maximum m, the running sum l and an output o of its own. When a larger score
//           comes, everything so far shrinks by exp(m_old - m_new) and the walk goes on. So K and V of a token are
//           read together, in one pass, and no score is ever stored. At the end the four warps of the block merge
//           their (m, l, o): the same rule once more.
// Cost      Bytes as in rung 1: 2 * context * head_dim floats for every query head. Two exponentials and head_dim
//           extra multiplications a token pay for the rescaling.
// Gain      Shared memory no longer grows with the context, so any length fits; two passes became one, and the block
//           meets at one barrier instead of two.
// Measured  NVIDIA H200: seqs_64_len_4096 2,925 us, 735 GB/s (16 % of the speed of light); seqs_1_len_131072 46,091 us,
//           23 GB/s (0 % of the speed of light); one_65536_among_31_of_4096 23,167 us, 68 GB/s (2 % of the speed of
//           light). Score 2.1.
// Modelled  k_cache and v_cache 4.0 times, block_table 508 times; traffic score 24.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// Grid: (num_heads, num_seqs).
template <int D>
__global__ void __launch_bounds__(kThreads)
decode_online_softmax(const float* __restrict__ q, const float* __restrict__ k_cache,
                      const float* __restrict__ v_cache, const int* __restrict__ block_table,
                      const int* __restrict__ context_lens, float* __restrict__ out, int num_heads,
                      int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  constexpr int kDimsPerLane = D / kWarp;
  __shared__ float warp_m[kWarps];
  __shared__ float warp_l[kWarps];
  __shared__ float warp_o[kWarps][D];

  const int head = blockIdx.x, seq = blockIdx.y;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int context = context_lens[seq];
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  const size_t token_stride = static_cast<size_t>(num_kv_heads) * D;
  const size_t head_offset = (static_cast<size_t>(seq) * num_heads + head) * D;

  float query[kDimsPerLane], o[kDimsPerLane];
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) {
    query[i] = q[head_offset + lane + i * kWarp] * scale;
    o[i] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  for (int token = warp; token < context; token += kWarps) {
    const size_t slot = static_cast<size_t>(pages[token / page_size]) * page_size + token % page_size;
    const size_t offset = slot * token_stride + kv_head * D + lane;
    float score = 0.f;
#pragma unroll
    for (int i = 0; i < kDimsPerLane; ++i) score += query[i] * k_cache[offset + i * kWarp];
    score = warp_sum(score);

    const float m_new = fmaxf(m, score);
    const float correction = __expf(m - m_new);  // 0 for the first token, where m is -inf
    const float weight = __expf(score - m_new);
    l = l * correction + weight;
#pragma unroll
    for (int i = 0; i < kDimsPerLane; ++i) o[i] = o[i] * correction + weight * v_cache[offset + i * kWarp];
    m = m_new;
  }

  // Merge the warps. One that saw no token has l = 0 and m = -inf: its weight is exp(-inf) = 0.
  if (lane == 0) {
    warp_m[warp] = m;
    warp_l[warp] = l;
  }
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) warp_o[warp][lane + i * kWarp] = o[i];
  __syncthreads();

  float block_m = -INFINITY;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) block_m = fmaxf(block_m, warp_m[w]);
  if (threadIdx.x < D) {
    float sum = 0.f, acc = 0.f;
    if (context > 0) {  // else block_m is -inf, and -inf - -inf is NaN
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float weight = __expf(warp_m[w] - block_m);
        sum += weight * warp_l[w];
        acc += weight * warp_o[w][threadIdx.x];
      }
    }
    out[head_offset + threadIdx.x] = context > 0 ? acc / sum : 0.f;
  }
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_heads, num_seqs);
  if (head_dim == 64)
    decode_online_softmax<64><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                                  num_kv_heads, page_size, max_blocks_per_seq, scale);
  else
    decode_online_softmax<128><<<grid, kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                                   num_kv_heads, page_size, max_blocks_per_seq, scale);
}
