// Split-K in two kernels. A long context is cut into pieces that different blocks work on.
//
// Idea   03_gqa_group.cu has num_kv_heads * num_seqs blocks, fewer than the card has multiprocessors when the batch is
//        small, and one block walks alone through a context of many thousands of tokens. So a block takes one piece
//        of the context and leaves its (m, l, o) in scratch memory; a second kernel merges the pieces:
//            m = max m_s,   l = sum exp(m_s - m) l_s,   out = sum exp(m_s - m) o_s / l     (o_s not yet normalised)
//        Within a piece everything is as in solutions/paged_decode/03_gqa_group.cu.
// Cost   K and V once, as before, and for each piece and query head head_dim + 2 floats written and read again. At
//        the shortest piece, 128 tokens, that is 1 / 128 of the traffic for a group of one query head, 1 / 32 for
//        a group of four, and less the longer the piece.
// Gain   The number of blocks no longer depends on the batch: enough pieces are cut for two blocks on every
//        multiprocessor. With a large batch the context stays whole and only the merge is extra.
#include <cuda_runtime.h>

#include <algorithm>

constexpr int kWarp = 32;
constexpr int kTile = kWarp;           // tokens staged together: one for each lane
constexpr int kMinPiece = 4 * kTile;   // tokens; a shorter piece does not repay its merge
constexpr int kBlocksPerMultiprocessor = 2;
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

// Block: a warp for each query head of the group. Grid: (num_kv_heads, num_seqs, pieces).
// Scratch: part_o [num_seqs, num_heads, pieces, D]; part_m, part_l [num_seqs, num_heads, pieces].
template <int D>
__global__ void __launch_bounds__(kMaxGroup * kWarp)
decode_piece(const float* __restrict__ q, const float* __restrict__ k_cache,
             const float* __restrict__ v_cache, const int* __restrict__ block_table,
             const int* __restrict__ context_lens, float* __restrict__ part_o, float* __restrict__ part_m,
             float* __restrict__ part_l, int num_heads, int num_kv_heads, int page_size,
             int max_blocks_per_seq, float scale) {
  using L = Layout<D>;
  constexpr int kDimsPerLane = D / kWarp;
  extern __shared__ float shared[];

  const int kv_head = blockIdx.x, seq = blockIdx.y, piece = blockIdx.z, pieces = gridDim.z;
  const int group = num_heads / num_kv_heads;  // also the number of warps
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  const size_t row = static_cast<size_t>(seq) * num_heads + kv_head * group + warp;

  // Whole tiles for every piece; the last ones of a short sequence stay empty.
  const int context = context_lens[seq];
  const int tiles = (context + kTile - 1) / kTile;
  const int piece_tokens = (tiles + pieces - 1) / pieces * kTile;
  const int begin = min(piece * piece_tokens, context), end = min(begin + piece_tokens, context);

  float* keys = shared + L::kKeys;
  float* values = shared + L::kValues;
  float* query = shared + L::kQueries + warp * D;                    // of this warp alone
  float* weights = shared + L::kQueries + group * D + warp * kTile;  // of this warp alone

  float o[kDimsPerLane];
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) {
    query[lane + i * kWarp] = q[row * D + lane + i * kWarp] * scale;
    o[i] = 0.f;
  }
  float m = -INFINITY, l = 0.f;

  for (int first = begin; first < end; first += kTile) {
    for (int r = warp; r < kTile; r += group) {
      const int token = first + r;
      const bool valid = token < end;
      size_t offset = 0;
      if (valid) {
        const size_t slot = static_cast<size_t>(pages[token / page_size]) * page_size + token % page_size;
        offset = (slot * num_kv_heads + kv_head) * D;
      }
#pragma unroll
      for (int d = lane; d < D; d += kWarp) {
        keys[r * L::kKeyStride + d] = valid ? k_cache[offset + d] : 0.f;
        values[r * D + d] = valid ? v_cache[offset + d] : 0.f;
      }
    }
    __syncthreads();  // the tile is complete

    float score = 0.f;
#pragma unroll 16
    for (int d = 0; d < D; ++d) score += query[d] * keys[lane * L::kKeyStride + d];
    if (first + lane >= end) score = -INFINITY;

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

  // An empty piece leaves m = -inf, l = 0, o = 0.
  const size_t part = row * pieces + piece;
  if (lane == 0) {
    part_m[part] = m;
    part_l[part] = l;
  }
#pragma unroll
  for (int i = 0; i < kDimsPerLane; ++i) part_o[part * D + lane + i * kWarp] = o[i];
}

// Block: D threads, one for each output dimension. Grid: (num_heads, num_seqs).
template <int D>
__global__ void __launch_bounds__(D)
merge_pieces(const float* __restrict__ part_o, const float* __restrict__ part_m, const float* __restrict__ part_l,
             float* __restrict__ out, int pieces) {
  const size_t row = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
  float m = -INFINITY;
  for (int s = 0; s < pieces; ++s) m = fmaxf(m, part_m[row * pieces + s]);

  float sum = 0.f, acc = 0.f;
  for (int s = 0; s < pieces; ++s) {
    const size_t part = row * pieces + s;
    if (part_l[part] == 0.f) continue;  // empty: where all are, m is -inf, and -inf - -inf would be NaN
    const float weight = __expf(part_m[part] - m);
    sum += weight * part_l[part];
    acc += weight * part_o[part * D + threadIdx.x];
  }
  out[row * D + threadIdx.x] = sum > 0.f ? acc / sum : 0.f;
}

// Pieces that give every multiprocessor its blocks, yet are long enough to repay the merge.
int choose_pieces(int blocks, int max_context_len) {
  int multiprocessors = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const int wanted = (kBlocksPerMultiprocessor * multiprocessors + blocks - 1) / blocks;
  const int most = (max_context_len + kMinPiece - 1) / kMinPiece;
  return std::max(1, std::min(wanted, most));
}

template <int D>
void launch(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
            const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int page_size,
            int max_blocks_per_seq, int max_context_len, float scale) {
  const int group = num_heads / num_kv_heads;
  const int pieces = choose_pieces(num_kv_heads * num_seqs, max_context_len);
  const size_t parts = static_cast<size_t>(num_seqs) * num_heads * pieces;
  float *part_o, *part_m, *part_l;
  cudaMalloc(&part_o, parts * D * sizeof(float));
  cudaMalloc(&part_m, parts * sizeof(float));
  cudaMalloc(&part_l, parts * sizeof(float));

  const int shared_bytes = Layout<D>::floats(group) * static_cast<int>(sizeof(float));
  cudaFuncSetAttribute(decode_piece<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  decode_piece<D><<<dim3(num_kv_heads, num_seqs, pieces), group * kWarp, shared_bytes>>>(
      q, k_cache, v_cache, block_table, context_lens, part_o, part_m, part_l, num_heads, num_kv_heads, page_size,
      max_blocks_per_seq, scale);
  merge_pieces<D><<<dim3(num_heads, num_seqs), D>>>(part_o, part_m, part_l, out, pieces);

  cudaFree(part_o);
  cudaFree(part_m);
  cudaFree(part_l);
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
