// Paged decode attention, rung 3: a block per KV head serves its whole group of query heads.
//
// Idea      Query heads that share a KV head want the same K and V. So one block takes the KV head with one warp for
//           each query head of the group, stages 32 tokens of K and V in shared memory, and all warps use them:
//           1. lane t computes the score of token t (q is broadcast, K is read down a padded column);
//           2. one online softmax step for 32 tokens: a single correction a tile instead of one a token;
//           3. a lane owns head_dim / 32 output dimensions and walks over the 32 tokens.
// Cost      2 * context * head_dim floats of K and V for every KV head: each byte of the cache is read once.
//           Per query head and tile: 2 * 32 * head_dim multiply-adds, and ten shuffles, not five a token.
// Gain      num_heads / num_kv_heads times fewer bytes than rung 2, which is what decoding is made of. Nothing for
//           plain multi-head attention, where the group is one head and the block a single warp.
// Measured  NVIDIA H200: seqs_64_len_4096 1,014 us, 2,119 GB/s (46 % of the speed of light); seqs_1_len_131072 26,170
//           us, 41 GB/s (1 % of the speed of light); one_65536_among_31_of_4096 13,148 us, 120 GB/s (3 % of the speed
//           of light). Score 4.1.
// Modelled  k_cache and v_cache 1.0 times, block_table 127 times; traffic score 97.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kTile = kWarp;  // tokens staged together: one for each lane
constexpr int kMaxGroup = 32;  // query heads of a KV head: a block has at most 32 warps
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

// The dynamic shared memory, in floats: keys, values, then queries [group][D] and weights [group][kTile].
template <int D>
struct Layout {
  static constexpr int kKeyStride = D + 1;  // odd, so that the 32 lanes of a column meet 32 different banks
  static constexpr int kKeys = 0;
  static constexpr int kValues = kKeys + kTile * kKeyStride;
  static constexpr int kQueries = kValues + kTile * D;
  static constexpr int floats(int group) { return kQueries + group * (D + kTile); }
};

// Block: a warp for each query head of the group. Grid: (num_kv_heads, num_seqs).
template <int D>
__global__ void __launch_bounds__(kMaxGroup * kWarp)
decode_gqa_group(const float* __restrict__ q, const float* __restrict__ k_cache,
                 const float* __restrict__ v_cache, const int* __restrict__ block_table,
                 const int* __restrict__ context_lens, float* __restrict__ out, int num_heads,
                 int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  using L = Layout<D>;
  constexpr int kDimsPerLane = D / kWarp;
  extern __shared__ float shared[];

  const int kv_head = blockIdx.x, seq = blockIdx.y;
  const int group = num_heads / num_kv_heads;  // also the number of warps
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int context = context_lens[seq];
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  const size_t head_offset = (static_cast<size_t>(seq) * num_heads + kv_head * group + warp) * D;

  float* keys = shared + L::kKeys;
  float* values = shared + L::kValues;
  float* query = shared + L::kQueries + warp * D;                    // of this warp alone
  float* weights = shared + L::kQueries + group * D + warp * kTile;  // of this warp alone

  float o[kDimsPerLane];
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) {
    query[lane + i * kWarp] = q[head_offset + lane + i * kWarp] * scale;
    o[i] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  for (int first = 0; first < context; first += kTile) {
    // Stage the tile: a warp copies whole tokens. Behind the end of the context there are zeros.
    for (int row = warp; row < kTile; row += group) {
      const int token = first + row;
      const bool valid = token < context;
      size_t offset = 0;
      if (valid) {
        const size_t slot = static_cast<size_t>(pages[token / page_size]) * page_size + token % page_size;
        offset = (slot * num_kv_heads + kv_head) * D;
      }
#pragma unroll
      for (int d = lane; d < D; d += kWarp) {
        keys[row * L::kKeyStride + d] = valid ? k_cache[offset + d] : 0.f;
        values[row * D + d] = valid ? v_cache[offset + d] : 0.f;
      }
    }
    __syncthreads();  // the tile is complete

    float score = 0.f;
#pragma unroll 16
    for (int d = 0; d < D; ++d) score += query[d] * keys[lane * L::kKeyStride + d];
    if (first + lane >= context) score = -INFINITY;

    const float m_new = fmaxf(m, warp_max(score));  // finite: a tile has at least one token
    const float correction = __expf(m - m_new);
    const float weight = __expf(score - m_new);
    l = l * correction + warp_sum(weight);
    m = m_new;
    weights[lane] = weight;
    __syncwarp();  // the lanes read each other's weights

#pragma unroll
    for (int i = 0; i < kDimsPerLane; ++i) o[i] *= correction;
#pragma unroll 8
    for (int t = 0; t < kTile; ++t) {
      const float w = weights[t];
#pragma unroll
      for (int i = 0; i < kDimsPerLane; ++i) o[i] += w * values[t * D + lane + i * kWarp];
    }
    __syncthreads();  // nobody needs this tile any more
  }

  const float inverse = context > 0 ? 1.f / l : 0.f;
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) out[head_offset + lane + i * kWarp] = o[i] * inverse;
}

template <int D>
void launch(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
            const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int page_size,
            int max_blocks_per_seq, float scale) {
  const int group = num_heads / num_kv_heads;
  const int shared_bytes = Layout<D>::floats(group) * static_cast<int>(sizeof(float));
  cudaFuncSetAttribute(decode_gqa_group<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  decode_gqa_group<D><<<dim3(num_kv_heads, num_seqs), group * kWarp, shared_bytes>>>(
      q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq,
      scale);
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  if (head_dim == 64)
    launch<64>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
               max_blocks_per_seq, scale);
  else
    launch<128>(q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads, num_kv_heads, page_size,
                max_blocks_per_seq, scale);
}
