// Paged decode attention, rung 8: keys and values in 8 bits, with a scale for every KV head.
// Needs sm_89.
//
// Idea      Decoding reads the cache and little else, so store it in e4m3: half the bytes. Multiply in float16, which
//           has all numbers of e4m3: cvt.f16x2.e4m3x2 makes two of two bytes on their way from shared memory to the
//           tensor cores. All else is rung 7; what changes is which lane has what.
//           K: a register of ldmatrix has four neighbouring dimensions of a token, where an operand wants two, and two
//           others eight further on. Their order does not matter to a scalar product: Q takes the same order.
//           V: the transposing ldmatrix moves pairs of bytes, two dimensions of a token. Permuting bytes pairs two
//           tokens of one dimension instead; the rows of O^T come out in another order, which the output puts right.
//           The scale of K goes into the softmax, that of V into the output. P stays in 16 bits: e4m3 has three bits of
//           fraction. float16 has less range than bfloat16, so each head's Q is brought near 1 by a power of two, and
//           weights are taken times 2^15.
// Cost      K and V once, a byte an element; group * (D + 2) floats for an unfinished piece. A conversion for every two
//           elements, and a byte permutation for every four of V.
// Gain      Half the bytes, so at most twice as fast as rung 7.
// Measured  NVIDIA H200: seqs_64_len_4096 136 us, 3,958 GB/s (85 % of the speed of light); seqs_1_len_131072 72 us,
//           3,746 GB/s (80 % of the speed of light); one_65536_among_31_of_4096 104 us, 3,813 GB/s (82 % of the speed
//           of light). Score 39.6.
// Modelled  k_cache and v_cache 1.0 times, q 22 times (every warp of every share reads its group's), block_table 8.0
//           times; no bank conflicts; traffic score 85.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

using bf16 = __nv_bfloat16;
using fp8 = __nv_fp8_e4m3;

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kRows = 16;              // the M of mma.m16n8k16
constexpr int kHeads = 8;              // its N: query heads of an operand
constexpr int kTile = 32;              // tokens that a warp takes at a time
constexpr int kOperands = kTile / kRows;
constexpr int kMaxGroup = 32;          // query heads of a KV head: four operands, beyond which registers do not suffice
constexpr int kUnit = kWarps * kTile;  // tokens: work is dealt out in such units
constexpr int kChunk = 16;             // bytes of a cp.async, and of a row of an 8 x 8 matrix
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kWeightExponent = 15.f;  // weights are at most 2^15: float16 ends at 65504, and loses bits below 2^-14

// Everything a block needs to know. Scratch is numbered by pieces, see Pieces.
struct Decode {
  const bf16* q;
  const fp8 *k_cache, *v_cache;
  const float *k_scale, *v_scale;
  const int *block_table, *context_lens;
  bf16* out;
  float* part_o;    // [num_kv_heads, shares + num_seqs, group, D], not normalised
  float2* part_ml;  // [num_kv_heads, shares + num_seqs, group]: largest score (in powers of two) and sum
  int* arrivals;    // [num_seqs, num_kv_heads], zero at the start: pieces that are finished
  int num_seqs, num_heads, num_kv_heads, page_size, max_blocks_per_seq;
  float scale_log2;  // scale * log2(e): the exponentials are powers of two
};

// ---- Instructions -------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// 16 bytes from global to shared memory, or 16 zeros.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, bool exists) {
  const int bytes = exists ? kChunk : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the latest `Pending` groups of this warp's copies have arrived, and shows them to all lanes.
template <int Pending>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
  __syncwarp();
}

__device__ __forceinline__ void load_matrices(uint32_t (&a)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&a)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ uint32_t transpose(uint32_t matrix) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(matrix));
  return result;
}

// c [16, 8] += a [16, 16] b [16, 8]. Lane t has of c: rows t / 4 and t / 4 + 8, columns 2 * (t % 4) and the next.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ float2 unpack_bf16(uint32_t pair) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

// Four e4m3 numbers to float16: the lower two and the upper two.
__device__ __forceinline__ void widen(uint32_t four, uint32_t& lower, uint32_t& upper) {
  asm("{\n"
      "  .reg .b16 low, high;\n"
      "  mov.b32 {low, high}, %2;\n"
      "  cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "  cvt.rn.f16x2.e4m3x2 %1, high;\n"
      "}"
      : "=r"(lower), "=r"(upper)
      : "r"(four));
}

__device__ __forceinline__ float power_of_two(float x) {  // 0 for -inf
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ __forceinline__ int lane_id() { return threadIdx.x % kWarp; }
// The shuffle shows the compiler that all lanes have the same number.
__device__ __forceinline__ int warp_id() { return __shfl_sync(kAllLanes, threadIdx.x / kWarp, 0); }

// ---- Who works on what --------------------------------------------------------------------------------------------
// All sequences one after the other, in units of kUnit tokens, are cut into gridDim.y equal shares; the blocks of a
// share, one for each KV head, lie side by side in the grid and read the same tokens.

__host__ __device__ inline int units_of(int context) {
  return context > kUnit ? (context + kUnit - 1) / kUnit : 1;  // an empty sequence too: somebody must write its zeros
}

// A sequence and its units [first, end) in the list of all.
struct Sequence {
  int index, context, first;

  __device__ __forceinline__ int end() const { return first + units_of(context); }
  __device__ __forceinline__ Sequence next(const Decode& p) const {
    return {index + 1, index + 1 < p.num_seqs ? p.context_lens[index + 1] : 0, end()};
  }
};

__device__ __forceinline__ int warp_sum(int value) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

__device__ __forceinline__ int sum_up_to_lane(int value) {
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int below = __shfl_up_sync(kAllLanes, value, offset);
    if (lane_id() >= offset) value += below;
  }
  return value;
}

// Units in a share. Every warp counts for itself, 32 sequences at a time.
__device__ __forceinline__ int units_of_share(const Decode& p) {
  int units = 0;
#pragma unroll 1
  for (int seq = lane_id(); seq < p.num_seqs; seq += kWarp) units += units_of(p.context_lens[seq]);
  return (warp_sum(units) + gridDim.y - 1) / gridDim.y;
}

// The sequence that has this unit; where there is no such unit, one that begins behind it.
__device__ __forceinline__ Sequence find_sequence(const Decode& p, int unit) {
  int before = 0, base = 0;
#pragma unroll 1
  for (;; base += kWarp) {
    const int seq = base + lane_id(), context = seq < p.num_seqs ? p.context_lens[seq] : 0;
    const int through = before + sum_up_to_lane(seq < p.num_seqs ? units_of(context) : unit + 1);
    const unsigned beyond = __ballot_sync(kAllLanes, through > unit);
    if (beyond) {
      const int lane = __ffs(beyond) - 1;
      const int first = __shfl_sync(kAllLanes, through - units_of(context), lane);
      return {base + lane, __shfl_sync(kAllLanes, context, lane), first};
    }
    before = __shfl_sync(kAllLanes, through, kWarp - 1);
  }
}

// ---- A warp's tiles -----------------------------------------------------------------------------------------------

// Rows of D elements in shared memory. The 16-byte chunks of a row are permuted by its number, so that eight rows of
// one column of chunks, which ldmatrix reads together, lie in all 32 banks. Two rows of 64 elements share them anyhow.
template <int D>
struct Tile {
  static constexpr int kRowBytes = D * static_cast<int>(sizeof(fp8));
  static constexpr int kChunks = kRowBytes / kChunk;
  static constexpr int kBytes = kTile * kRowBytes;
  static constexpr int kRowsOfBanks = 8 / kChunks;  // rows in 128 bytes
  static_assert(kRowsOfBanks >= 1 && kWarp % kChunks == 0, "a row of 256 bytes needs another permutation");

  static __device__ __forceinline__ int offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ row / kRowsOfBanks % kChunks) * kChunk;
  }
};

// Tokens [begin, end) of one sequence and one KV head: what a block works on between two barriers. Its warps take tiles
// in turn.
struct Piece {
  int seq, begin, end;

  __device__ __forceinline__ int first_token(int tile, int warp) const {
    return begin + (tile * kWarps + warp) * kTile;
  }
};

// A lane's token of a tile as its place in the cache, page * page_size + offset; -1 beyond the end.
__device__ __forceinline__ int find_slot(const Decode& p, const Piece& piece, int tile, int warp) {
  const int token = piece.first_token(tile, warp) + lane_id() % kTile;
  if (token >= piece.end) return -1;
  const int page = p.block_table[static_cast<size_t>(piece.seq) * p.max_blocks_per_seq + token / p.page_size];
  return page * p.page_size + token % p.page_size;
}

// Starts the copy of a tile's keys or values, as a group of its own. Missing rows become zeros. `cache`: where this
// lane's chunk of slot 0 is.
template <int D>
__device__ __forceinline__ void fetch(const fp8* cache, unsigned slot_stride, int slot, uint32_t tile) {
  using T = Tile<D>;
#pragma unroll
  for (int r = 0; r < kTile; r += kWarp / T::kChunks) {
    const int row = r + lane_id() / T::kChunks;
    const int row_slot = __shfl_sync(kAllLanes, slot, row);
    const size_t place = static_cast<size_t>(static_cast<unsigned>(max(row_slot, 0))) * slot_stride;
    copy_async(tile + T::offset(row, lane_id() % T::kChunks), cache + place, row_slot >= 0);
  }
  commit_copies();
}

// The power of two below the largest of a head's queries, which four neighbouring lanes have.
template <int D>
__device__ __forceinline__ float power_below(const uint2 (&query)[D / 16]) {
  float largest = 0.f;
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const float2 low = unpack_bf16(query[i].x), high = unpack_bf16(query[i].y);
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(low.x), fabsf(low.y)), fmaxf(fabsf(high.x), fabsf(high.y))));
  }
  for (int offset = 1; offset < 4; offset *= 2) largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
  constexpr unsigned kExponent = 0x7f800000u;  // of a float; with a fraction of zero it is a power of two
  return largest > 0.f ? __uint_as_float(__float_as_uint(largest) & kExponent) : 1.f;
}

// The queries of Tiles * 8 heads as the second operand, straight from global memory; missing heads are zeros. Lane t
// has four dimensions of each 16, from 4 * (t % 4). `factor`: what the scores of this lane's two heads, see State, are
// still to be multiplied by.
template <int D, int Tiles>
__device__ __forceinline__ void load_queries(const Decode& p, int seq, uint32_t (&q)[Tiles][D / 16][2],
                                             float (&factor)[Tiles][2]) {
  const int group = p.num_heads / p.num_kv_heads;
  const float scale = p.scale_log2 * p.k_scale[blockIdx.x];
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
    const int head = t * kHeads + lane_id() / 4;
    const size_t row = static_cast<size_t>(seq) * p.num_heads + blockIdx.x * group + head;
    const uint2* source = reinterpret_cast<const uint2*>(p.q + row * D) + lane_id() % 4;
    uint2 query[D / 16];
#pragma unroll
    for (int i = 0; i < D / 16; ++i) query[i] = head < group ? source[i * 4] : uint2{0, 0};
    const float power = power_below<D>(query), inverse = 1.f / power;
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      const float2 low = unpack_bf16(query[i].x), high = unpack_bf16(query[i].y);
      q[t][i][0] = pack_f16(low.x * inverse, low.y * inverse);
      q[t][i][1] = pack_f16(high.x * inverse, high.y * inverse);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) factor[t][j] = scale * __shfl_sync(kAllLanes, power, (lane_id() % 4 * 2 + j) * 4);
  }
}

// The online softmax of Tiles * 8 heads. A lane has two heads of each tile: 2 * (lane % 4) and the next.
template <int D, int Tiles>
struct State {
  float m[Tiles][2];           // largest score so far, in powers of two
  float l[Tiles][2];           // sum over this lane's tokens only
  float o[Tiles][D / 16][4];  // O^T: dimension 2 * (lane / 4) of each 16 for the two heads, then the one after

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int t = 0; t < Tiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        m[t][j] = -INFINITY;
        l[t][j] = 0.f;
      }
#pragma unroll
      for (int i = 0; i < D / 16; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) o[t][i][j] = 0.f;
    }
  }
};

// S^T = K Q^T for a tile. Matrices of ldmatrix: upper and lower eight tokens of two chunks of 16 dimensions.
template <int D, int Tiles>
__device__ __forceinline__ void score(float (&s)[kOperands][Tiles][4], uint32_t keys,
                                      const uint32_t (&q)[Tiles][D / 16][2]) {
#pragma unroll
  for (int r = 0; r < kOperands; ++r) {
#pragma unroll
    for (int t = 0; t < Tiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[r][t][j] = 0.f;
#pragma unroll
    for (int i = 0; i < D / 16; i += 2) {
      uint32_t bytes[4];
      load_matrices(bytes, keys + Tile<D>::offset(r * kRows + lane_id() % 16, i + lane_id() / 16));
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        uint32_t k[4];
        widen(bytes[2 * c], k[0], k[2]);
        widen(bytes[2 * c + 1], k[1], k[3]);
#pragma unroll
        for (int t = 0; t < Tiles; ++t) multiply(s[r][t], k, q[t][i + c]);
      }
    }
  }
}

// One step of the online softmax for a tile of heads: scores become weights, packed as the operands P^T.
// `tokens` says how many of the tile exist, at least one.
template <int D, int Tiles>
__device__ __forceinline__ void weigh(State<D, Tiles>& state, int t, float (&s)[kOperands][Tiles][4],
                                      const float (&factor)[2], int tokens, uint32_t (&weights)[kOperands][Tiles][2]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    float largest = -INFINITY;
#pragma unroll
    for (int r = 0; r < 2 * kOperands; ++r) {
      float& entry = s[r / 2][t][r % 2 * 2 + j];
      entry = r * 8 + lane_id() / 4 < tokens ? entry * factor[j] : -INFINITY;
      largest = fmaxf(largest, entry);
    }
    for (int offset = 4; offset < kWarp; offset *= 2)  // the lanes that have the same heads
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));

    const float m_new = fmaxf(state.m[t][j], largest);
    const float correction = power_of_two(state.m[t][j] - m_new);  // 0 for the first tile, where m is -inf
    state.m[t][j] = m_new;
    state.l[t][j] *= correction;
#pragma unroll
    for (int r = 0; r < 2 * kOperands; ++r) {
      float& entry = s[r / 2][t][r % 2 * 2 + j];
      entry = power_of_two(entry - m_new + kWeightExponent);
      state.l[t][j] += entry;
    }
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      state.o[t][i][j] *= correction;
      state.o[t][i][j + 2] *= correction;
    }
  }
#pragma unroll
  for (int r = 0; r < kOperands; ++r) {
    weights[r][t][0] = transpose(pack_f16(s[r][t][0], s[r][t][1]));
    weights[r][t][1] = transpose(pack_f16(s[r][t][2], s[r][t][3]));
  }
}

// O^T += V^T P^T for a tile. A register of the transposing ldmatrix has dimensions 2j and 2j + 1 of a token, then those
// of the next.
template <int D, int Tiles>
__device__ __forceinline__ void accumulate(State<D, Tiles>& state, uint32_t values,
                                           const uint32_t (&weights)[kOperands][Tiles][2]) {
  constexpr unsigned kPairTokens = 0x3120;  // bytes 0 and 2, then 1 and 3
#pragma unroll
  for (int r = 0; r < kOperands; ++r)
#pragma unroll
    for (int i = 0; i < D / 16; i += 2) {
      uint32_t bytes[4];
      load_matrices_transposed(bytes, values + Tile<D>::offset(r * kRows + lane_id() % 16, i + lane_id() / 16));
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        uint32_t v[4];
        widen(__byte_perm(bytes[2 * c], 0, kPairTokens), v[0], v[1]);
        widen(__byte_perm(bytes[2 * c + 1], 0, kPairTokens), v[2], v[3]);
#pragma unroll
        for (int t = 0; t < Tiles; ++t) multiply(state.o[t][i + c], v, weights[r][t]);
      }
    }
}

// A warp's part of a piece: every kWarps-th tile of it. While it works on keys, values are on their way, and the other
// way round. Page numbers are read a tile ahead of the copies that need them.
template <int D, int Tiles>
__device__ __forceinline__ void attend(const Decode& p, const Piece& piece, int warp, uint32_t keys,
                                       State<D, Tiles>& state) {
  using T = Tile<D>;
  const uint32_t values = keys + T::kBytes;
  const unsigned slot_stride = p.num_kv_heads * D;
  const int lane_offset = blockIdx.x * D + lane_id() % T::kChunks * kChunk;
  const fp8 *k_cache = p.k_cache + lane_offset, *v_cache = p.v_cache + lane_offset;

  int slot = find_slot(p, piece, 0, warp);
  fetch<D>(k_cache, slot_stride, slot, keys);
  fetch<D>(v_cache, slot_stride, slot, values);
  slot = find_slot(p, piece, 1, warp);
  uint32_t q[Tiles][D / 16][2];
  float factor[Tiles][2];
  load_queries<D>(p, piece.seq, q, factor);

#pragma unroll 1
  for (int tile = 0; piece.first_token(tile, warp) < piece.end; ++tile) {
    float s[kOperands][Tiles][4];
    await_copies<1>();  // all but the values
    score<D, Tiles>(s, keys, q);
    __syncwarp();  // all lanes have read the keys
    fetch<D>(k_cache, slot_stride, slot, keys);

    uint32_t weights[kOperands][Tiles][2];
    const int tokens = piece.end - piece.first_token(tile, warp);
#pragma unroll
    for (int t = 0; t < Tiles; ++t) weigh(state, t, s, factor[t], tokens, weights);

    await_copies<1>();  // all but the next keys
    accumulate(state, values, weights);
    __syncwarp();  // all lanes have read the values
    fetch<D>(v_cache, slot_stride, slot, values);
    slot = find_slot(p, piece, tile + 2, warp);
  }
  await_copies<0>();  // the last ones bring zeros, but the memory is about to be used otherwise
}

// ---- Merging ------------------------------------------------------------------------------------------------------
// D / 4 neighbouring threads take a head, four dimensions each.

// What the warps found, in shared memory, where the tiles were. Rows are padded so that a warp's stores meet all banks.
template <int D, int Tiles>
struct Found {
  float o[kWarps][Tiles * kHeads][D + 4];
  float m[kWarps][Tiles * kHeads], l[kWarps][Tiles * kHeads];
  bool last;  // see last_to_arrive()

  __device__ __forceinline__ void put(const State<D, Tiles>& state) {
    const int warp = warp_id();  // a shuffle: by all lanes
    const int dim = lane_id() / 4 * 2;
#pragma unroll
    for (int t = 0; t < Tiles; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int head = t * kHeads + lane_id() % 4 * 2 + j;
        float sum = state.l[t][j];
        for (int offset = 4; offset < kWarp; offset *= 2) sum += __shfl_xor_sync(kAllLanes, sum, offset);
        if (dim == 0) {
          m[warp][head] = state.m[t][j];
          l[warp][head] = sum;
        }
#pragma unroll
        for (int i = 0; i < D / 16; ++i) {
          const float2 pair = {state.o[t][i][j], state.o[t][i][j + 2]};
          *reinterpret_cast<float2*>(&o[warp][head][i * 16 + dim]) = pair;
        }
      }
  }
};

// (m, l, o) of four dimensions of a head, o not normalised.
struct Sum {
  float m, l;
  float4 o;

  __device__ __forceinline__ explicit Sum(float largest) : m(largest), l(0.f), o(make_float4(0.f, 0.f, 0.f, 0.f)) {}

  __device__ __forceinline__ void rescale(float largest) {
    const float correction = power_of_two(m - largest);
    m = largest;
    l *= correction;
    o = {o.x * correction, o.y * correction, o.z * correction, o.w * correction};
  }

  __device__ __forceinline__ void add(float weight, float other_l, const float4& other_o) {
    l += weight * other_l;
    o.x += weight * other_o.x;
    o.y += weight * other_o.y;
    o.z += weight * other_o.z;
    o.w += weight * other_o.w;
  }

  __device__ __forceinline__ void write(bf16* out, float scale) const {
    const float factor = l > 0.f ? scale / l : 0.f;  // nothing to attend to: zeros
    const uint2 packed = {pack_bf16(o.x * factor, o.y * factor), pack_bf16(o.z * factor, o.w * factor)};
    *reinterpret_cast<uint2*>(out) = packed;
  }
};

template <int D, int Tiles>
__device__ __forceinline__ Sum merge_warps(const Found<D, Tiles>& found, int head, int dim) {
  float largest = -INFINITY;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, found.m[w][head]);
  Sum sum(largest);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {  // who saw no token has m = -inf, and -inf - -inf is NaN
    const float weight = found.l[w][head] > 0.f ? power_of_two(found.m[w][head] - largest) : 0.f;
    sum.add(weight, found.l[w][head], *reinterpret_cast<const float4*>(&found.o[w][head][dim]));
  }
  return sum;
}

// The pieces of a sequence, for one KV head: one from each share that has a part of it. Along the list of units a new
// piece comes with the next share or with the next sequence, so share + sequence numbers them all, without a gap.
struct Pieces {
  int first, count;

  __device__ __forceinline__ Pieces(const Sequence& sequence, int share_size) {
    const int share = sequence.first / share_size;
    first = share + sequence.index;
    count = (sequence.end() - 1) / share_size - share + 1;
  }
};

// Merges what all blocks left for one head, kAtOnce pieces at a time: all of these are asked for before any is used,
// since that takes as long as one; lane i weighs piece i, and all lanes add it up. All lanes of a warp come together.
// `row`: of the first piece, in part_o and part_ml. __ldcg looks past the first-level cache.
template <int D>
__device__ __forceinline__ Sum merge_pieces(const Decode& p, size_t row, int group, int count, int dim) {
  constexpr int kAtOnce = 16;  // half a warp: as many lanes as a head of 64 dimensions has
  const int lane = lane_id() % kAtOnce;
  Sum sum(-INFINITY);
#pragma unroll 1
  for (int first = 0; first < count; first += kAtOnce) {
    float4 o[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const size_t piece = row + min(first + i, count - 1) * group;
      o[i] = __ldcg(reinterpret_cast<const float4*>(p.part_o + piece * D + dim));
    }
    float2 ml = {-INFINITY, 0.f};
    if (first + lane < count) ml = __ldcg(&p.part_ml[row + (first + lane) * group]);
    float largest = fmaxf(ml.x, sum.m);
    for (int offset = kAtOnce / 2; offset > 0; offset /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, offset));
    const float weight = power_of_two(ml.x - largest);
    sum.rescale(largest);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      sum.add(__shfl_sync(kAllLanes, weight, i, kAtOnce), __shfl_sync(kAllLanes, ml.y, i, kAtOnce), o[i]);
  }
  return sum;
}

// Calls act(head, dim, exists) for every four dimensions of every head of the group, by whole warps: where a warp has
// more lanes than are needed, the others repeat the last head, and `exists` is false.
template <int D, typename Act>
__device__ __forceinline__ void for_each_four(int group, Act act) {
  constexpr int kFours = D / 4;
#pragma unroll 1
  for (int first = warp_id() * kWarp; first < group * kFours; first += kThreads) {
    const int head = (first + lane_id()) / kFours;
    act(min(head, group - 1), lane_id() % kFours * 4, head < group);
  }
}

// True in all threads of the block that is the last of `count` to come here for this counter. What the others wrote
// before they came can then be read. `last`: in shared memory.
__device__ __forceinline__ bool last_to_arrive(int* counter, int count, bool& last) {
  __threadfence();  // what this thread wrote comes before the block's arrival
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(counter, 1) == count - 1;
  __syncthreads();
  __threadfence();
  return last;
}

// The end of a piece. If it is a whole sequence it goes to the output, else to scratch, and whoever comes last merges.
template <int D, int Tiles>
__device__ __forceinline__ void finish(const Decode& p, int seq, const Pieces& pieces, Found<D, Tiles>& found,
                                       const State<D, Tiles>& state) {
  const int group = p.num_heads / p.num_kv_heads;
  const float v_scale = p.v_scale[blockIdx.x];
  bf16* out = p.out + (static_cast<size_t>(seq) * p.num_heads + blockIdx.x * group) * D;
  const size_t rows = (static_cast<size_t>(blockIdx.x) * (gridDim.y + p.num_seqs)) * group;  // of other KV heads
  __syncthreads();  // all warps are done with their tiles
  found.put(state);
  __syncthreads();
  for_each_four<D>(group, [&](int head, int dim, bool exists) {
    const Sum sum = merge_warps(found, head, dim);
    if (!exists) return;
    if (pieces.count == 1) {
      sum.write(out + head * D + dim, v_scale);
    } else {
      const size_t row = rows + (blockIdx.y + seq) * group + head;
      *reinterpret_cast<float4*>(p.part_o + row * D + dim) = sum.o;
      if (dim == 0) p.part_ml[row] = make_float2(sum.m, sum.l);
    }
  });
  if (pieces.count > 1 && last_to_arrive(&p.arrivals[seq * p.num_kv_heads + blockIdx.x], pieces.count, found.last))
    for_each_four<D>(group, [&](int head, int dim, bool exists) {
      const Sum sum = merge_pieces<D>(p, rows + pieces.first * group + head, group, pieces.count, dim);
      if (exists) sum.write(out + head * D + dim, v_scale);
    });
  __syncthreads();  // the next piece may use the memory
}

// ---- Kernel -------------------------------------------------------------------------------------------------------

template <int D, int Tiles>
constexpr int shared_bytes() {
  return std::max(kWarps * 2 * Tile<D>::kBytes, static_cast<int>(sizeof(Found<D, Tiles>)));
}

// Grid: (num_kv_heads, shares). `Tiles` operands of eight heads hold a group.
template <int D, int Tiles>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor) decode_fp8(const Decode p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& found = *reinterpret_cast<Found<D, Tiles>*>(shared);
  const int warp = warp_id();
  const uint32_t tiles = shared_address(shared) + warp * 2 * Tile<D>::kBytes;

  const int share_size = units_of_share(p);
  const int first = blockIdx.y * share_size, end = first + share_size;
#pragma unroll 1
  for (Sequence at = find_sequence(p, first); at.index < p.num_seqs && at.first < end; at = at.next(p)) {
    const Piece piece = {at.index, max(first - at.first, 0) * kUnit, min((end - at.first) * kUnit, at.context)};
    State<D, Tiles> state;
    state.clear();
    attend(p, piece, warp, tiles, state);
    finish(p, at.index, Pieces(at, share_size), found, state);
  }
}

// ---- Host ---------------------------------------------------------------------------------------------------------

template <int D, int Tiles>
void launch(Decode p, int max_context_len) {
  int multiprocessors = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const int at_once = multiprocessors * kBlocksPerMultiprocessor / p.num_kv_heads;
  const int shares = std::max(1, std::min(at_once, p.num_seqs * units_of(max_context_len)));
  const size_t parts = static_cast<size_t>(shares + p.num_seqs) * p.num_heads;
  const size_t arrivals = static_cast<size_t>(p.num_seqs) * p.num_kv_heads * sizeof(int);
  cudaMalloc(&p.part_o, parts * D * sizeof(float));
  cudaMalloc(&p.part_ml, parts * sizeof(float2));
  cudaMalloc(&p.arrivals, arrivals);
  cudaMemsetAsync(p.arrivals, 0, arrivals);

  const auto kernel = decode_fp8<D, Tiles>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes<D, Tiles>());
  kernel<<<dim3(p.num_kv_heads, shares), kThreads, shared_bytes<D, Tiles>()>>>(p);

  cudaFree(p.part_o);
  cudaFree(p.part_ml);
  cudaFree(p.arrivals);
}

template <int D>
void launch_group(const Decode& p, int max_context_len) {
  const int group = p.num_heads / p.num_kv_heads;
  if (group <= kHeads)
    launch<D, 1>(p, max_context_len);
  else if (group <= 2 * kHeads)
    launch<D, 2>(p, max_context_len);
  else
    launch<D, kMaxGroup / kHeads>(p, max_context_len);
}

extern "C" void solve(const bf16* q, const fp8* k_cache, const fp8* v_cache, const float* k_scale,
                      const float* v_scale, const int* block_table, const int* context_lens, bf16* out, int num_seqs,
                      int num_heads, int num_kv_heads, int head_dim, int page_size, int max_blocks_per_seq,
                      int max_context_len, float scale) {
  constexpr float kLog2E = 1.44269504f;
  const Decode p = {q,       k_cache, v_cache,  k_scale,   v_scale,      block_table, context_lens,
                    out,     nullptr, nullptr,  nullptr,   num_seqs,     num_heads,   num_kv_heads,
                    page_size, max_blocks_per_seq, scale * kLog2E};
  if (head_dim == 64)
    launch_group<64>(p, max_context_len);
  else
    launch_group<128>(p, max_context_len);
}
