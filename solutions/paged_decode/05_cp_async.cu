// Paged decode attention, rung 5: keys and values come through a ring in shared memory that cp.async fills.
// Needs sm_80.
//
// Idea      A load into registers holds them until it arrives, so that few bytes are under way. cp.async copies from
//           the cache to shared memory past the registers. Each warp has a ring of kStages tiles, four tokens each;
//           what it has read it replaces at once by what it needs kStages tiles later. Keys and values are separate
//           groups of copies: scores are computed while the values are still coming. Two things make it cheap:
//           1. A lane reads of a tile just what it has itself copied, so no thread waits for another: there is no
//              barrier in the loop, only "my copies have arrived". All query heads of the group are served from one
//              read.
//           2. A page's number is needed before its tokens. A lane looks up one token, the warp 32 of them ahead.
// Cost      As in rung 3, K and V once. Under way on each multiprocessor: two blocks of 8 warps with two tiles of 4 KB
//           (head_dim 128), 128 KB; 700 ns of HBM at 4.8 TB/s need 25 KB. For 16 bytes read from shared memory there
//           are four multiply-adds for each query head of the group: with four heads a third of what the units can do.
// Gain      The rate of the memory, wherever there are enough blocks: num_seqs * num_kv_heads of them.
// Measured  NVIDIA H200: seqs_64_len_4096 476 us, 4,516 GB/s (97 % of the speed of light); seqs_1_len_131072 2,216 us,
//           484 GB/s (10 % of the speed of light); one_65536_among_31_of_4096 1,265 us, 1,247 GB/s (27 % of the speed
//           of light). Score 28.7.
// Modelled  k_cache and v_cache 1.0x; q 8x and block_table 32x from L1 and L2, because every warp looks for itself.
// Beware    Shared memory that cp.async fills wants to begin at a multiple of 128 bytes: one static __shared__ variable
//           before it moves it by 16, each line then lies in two rows, and the kernel takes a sixth longer (measured).
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kLanes = 16, kHalves = kWarp / kLanes;  // lanes that share a token: each owns head_dim / 16 dimensions
constexpr int kTokens = 2;                            // of a lane in a tile
constexpr int kTile = kTokens * kHalves;              // tokens of a warp in a tile
constexpr int kBlockTile = kWarps * kTile;            // tokens of the block in a tile
constexpr int kTilesAhead = kWarp / kTile;            // tiles whose pages are looked up at once: a token for each lane
constexpr int kStages = 2;                            // tiles of the ring
constexpr float kNoScore = -1e30f;                    // below any score, yet finite: kNoScore - kNoScore is no NaN
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ void copy_16_bytes(void* to, const void* from, bool wanted) {
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = wanted ? 16 : 0;  // what is missing of the 16 is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All but this thread's newest N groups have arrived.
template <int N>
__device__ __forceinline__ void wait_for_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ __forceinline__ float4 operator*(float s, float4 a) {
  return make_float4(s * a.x, s * a.y, s * a.z, s * a.w);
}
__device__ __forceinline__ void add(float4& a, float w, float4 b) {
  a.x += w * b.x;
  a.y += w * b.y;
  a.z += w * b.z;
  a.w += w * b.w;
}

// What a lane has of the attention of kHeads query heads: its own dimensions, and the tokens of its half of the warp.
template <int D, int kHeads>
struct Attention {
  static constexpr int kVecs = D / (4 * kLanes);  // a lane's dimensions are 64 * vec + 4 * (lane % 16) + 0..3
  float4 q[kHeads][kVecs], o[kHeads][kVecs];
  float m[kHeads], l[kHeads];

  __device__ __forceinline__ void start(const float* row, int heads, float scale) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      m[h] = kNoScore;
      l[h] = 0.f;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        const float4* from = reinterpret_cast<const float4*>(row + h * D) + vec * kLanes + threadIdx.x % kLanes;
        o[h][vec] = make_float4(0.f, 0.f, 0.f, 0.f);
        q[h][vec] = h < heads ? scale * *from : o[h][vec];
      }
    }
  }

  // The same in all lanes that share a token. The first `tokens` of the lane exist.
  __device__ __forceinline__ void score(const float4* keys, int tokens, float (&scores)[kTokens][kHeads]) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        const float4 key = keys[(t * kVecs + vec) * kWarp];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) scores[t][h] = (vec > 0 ? scores[t][h] : 0.f) + dot(q[h][vec], key);
      }
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
#pragma unroll
        for (int offset = kLanes / 2; offset > 0; offset /= 2)
          scores[t][h] += __shfl_xor_sync(kAllLanes, scores[t][h], offset);
        if (t >= tokens) scores[t][h] = -INFINITY;
      }
  }

  // Scores become weights. A maximum seldom grows, so what was summed is seldom rescaled.
  __device__ __forceinline__ void weigh(float (&scores)[kTokens][kHeads]) {
    float top[kHeads];
    bool grows = false;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      top[h] = m[h];
#pragma unroll
      for (int t = 0; t < kTokens; ++t) top[h] = fmaxf(top[h], scores[t][h]);
      grows |= top[h] > m[h];
    }
    if (grows) rescale(top);
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        scores[t][h] = exp2_approx(scores[t][h] - m[h]);
        l[h] += scores[t][h];
      }
  }

  __device__ __forceinline__ void rescale(const float (&top)[kHeads]) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float correction = exp2_approx(m[h] - top[h]);
      m[h] = top[h];
      l[h] *= correction;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) o[h][vec] = correction * o[h][vec];
    }
  }

  __device__ __forceinline__ void sum(const float4* values, const float (&weights)[kTokens][kHeads]) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        const float4 value = values[(t * kVecs + vec) * kWarp];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) add(o[h][vec], weights[t][h], value);
      }
  }

  // This half of the warp's piece: o [kHeads][D], ml [kHeads].
  __device__ __forceinline__ void leave(float* piece_o, float2* piece_ml) const {
    const int lane = threadIdx.x % kLanes;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (lane == 0) piece_ml[h] = make_float2(m[h], l[h]);
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec)
        reinterpret_cast<float4*>(piece_o + h * D)[vec * kLanes + lane] = o[h][vec];
    }
  }
};

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

struct Sum {
  float m, l, o;
};

// One element of a row, of `count` pieces: o and ml point at it in the first. All lanes of a warp are in the same row,
// so that each fetches m and l of another piece. Everything is asked for at once: this is waited for.
template <int kHeads, int D>
__device__ Sum merge(int count, const float* o, const float2* ml) {
  constexpr int kAtOnce = 16;
  const int lane = threadIdx.x % kWarp;
  Sum sum = {kNoScore, 0.f, 0.f};
  for (int first = 0; first < count; first += kAtOnce) {
    const bool mine = lane < kAtOnce && first + lane < count;
    const float2 piece = mine ? ml[(first + lane) * kHeads] : make_float2(kNoScore, 0.f);
    float part[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) part[p] = first + p < count ? o[(first + p) * kHeads * D] : 0.f;
    const float top = fmaxf(sum.m, warp_max(piece.x));
    const float old = exp2_approx(sum.m - top), weight = exp2_approx(piece.x - top);
    sum = {top, old * sum.l + warp_sum(weight * piece.y), old * sum.o};
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) sum.o += __shfl_sync(kAllLanes, weight, p) * part[p];
  }
  return sum;
}

// The dynamic shared memory: the ring, and when it has done its work the pieces of the half warps in its place.
template <int D, int kHeads>
struct Layout {
  static constexpr int kTensorVecs = kTokens * Attention<D, kHeads>::kVecs * kWarp;  // K or V of a warp's tile
  static constexpr int kRingBytes = kWarps * kStages * 2 * kTensorVecs * static_cast<int>(sizeof(float4));
  static constexpr int kPieces = kWarps * kHalves;
  static constexpr int kPieceBytes = kHeads * static_cast<int>(D * sizeof(float) + sizeof(float2));
  static constexpr int kBytes = kRingBytes > kPieces * kPieceBytes ? kRingBytes : kPieces * kPieceBytes;
};

// Block: kWarps warps. Grid: (units, num_seqs); a unit is up to kHeads query heads of one KV head.
template <int D, int kHeads>
__global__ void __launch_bounds__(kThreads, kHeads <= 4 ? 2 : 1)
decode_ring(const float* __restrict__ q, const float* __restrict__ k_cache, const float* __restrict__ v_cache,
            const int* __restrict__ block_table, const int* __restrict__ context_lens, float* __restrict__ out,
            int num_heads, int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  using L = Layout<D, kHeads>;
  constexpr int kVecs = Attention<D, kHeads>::kVecs;
  extern __shared__ __align__(128) float4 shared[];

  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp, half = lane / kLanes;
  const int group = num_heads / num_kv_heads, units_per_kv_head = (group + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.x / units_per_kv_head, seq = blockIdx.y;
  const int first_head = kv_head * group + blockIdx.x % units_per_kv_head * kHeads;
  const int heads = min(kHeads, (kv_head + 1) * group - first_head);
  const size_t row = static_cast<size_t>(seq) * num_heads + first_head;
  const int context = context_lens[seq], tiles = (context + kBlockTile - 1) / kBlockTile;
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;
  float4* ring = shared + warp * kStages * 2 * L::kTensorVecs + lane;  // what this lane copies, it alone reads

  // The slot in the cache of token lane % kTile of this warp in tile lane / kTile of the next kTilesAhead; -1: none.
  auto look_up = [&](int tile) {
    const int token = (tile + lane / kTile) * kBlockTile + warp * kTile + lane % kTile;
    return token < context ? pages[token / page_size] * page_size + token % page_size : -1;
  };
  int slots = look_up(0), next_slots = look_up(kTilesAhead);

  auto request = [&](int tile, const float* cache, int tensor) {
    float4* to = ring + (tile % kStages * 2 + tensor) * L::kTensorVecs;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int slot = __shfl_sync(kAllLanes, slots, tile % kTilesAhead * kTile + t * kHalves + half);
      const size_t cache_row = static_cast<size_t>(max(slot, 0)) * num_kv_heads + kv_head;
      const float4* from = reinterpret_cast<const float4*>(cache + cache_row * D) + lane % kLanes;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec)
        copy_16_bytes(to + (t * kVecs + vec) * kWarp, from + vec * kLanes, slot >= 0);
    }
    end_group();  // behind the last tile as well, so that counting groups stays simple
  };

  static_assert(kStages < kTilesAhead, "the first tiles of the ring are looked up at once");
#pragma unroll 1
  for (int tile = 0; tile < kStages; ++tile) {
    request(tile, k_cache, 0);
    request(tile, v_cache, 1);
  }

  Attention<D, kHeads> attention;
  attention.start(q + row * D, heads, scale * kLog2e);
  for (int tile = 0; tile < tiles; ++tile) {
    if ((tile + kStages) % kTilesAhead == 0) {
      slots = next_slots;
      next_slots = look_up(tile + kStages + kTilesAhead);
    }
    const float4* stage = ring + tile % kStages * 2 * L::kTensorVecs;
    const int left = context - tile * kBlockTile - warp * kTile;  // tokens t * kHalves + half < left exist
    float scores[kTokens][kHeads];
    wait_for_groups<2 * kStages - 1>();  // the keys of this tile are there
    attention.score(stage, (left - half + kHalves - 1) / kHalves, scores);
    request(tile + kStages, k_cache, 0);  // in the place of those just read
    attention.weigh(scores);
    wait_for_groups<2 * kStages - 1>();  // the values of this tile are there
    attention.sum(stage + L::kTensorVecs, scores);
    request(tile + kStages, v_cache, 1);
  }

  wait_for_groups<0>();
  __syncthreads();  // nobody needs the ring any more
  float* piece_o = reinterpret_cast<float*>(shared);
  float2* piece_ml = reinterpret_cast<float2*>(piece_o + L::kPieces * kHeads * D);
  const int piece = warp * kHalves + half;
  attention.leave(piece_o + piece * kHeads * D, piece_ml + piece * kHeads);
  __syncthreads();
  for (int e = tid; e < heads * D; e += kThreads) {
    const Sum sum = merge<kHeads, D>(L::kPieces, piece_o + e, piece_ml + e / D);
    out[row * D + e] = context > 0 ? sum.o / sum.l : 0.f;
  }
}

template <int D, int kHeads>
void launch(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
            const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int page_size,
            int max_blocks_per_seq, float scale) {
  using L = Layout<D, kHeads>;
  const int units = num_kv_heads * ((num_heads / num_kv_heads + kHeads - 1) / kHeads);
  cudaFuncSetAttribute(decode_ring<D, kHeads>, cudaFuncAttributeMaxDynamicSharedMemorySize, L::kBytes);
  decode_ring<D, kHeads><<<dim3(units, num_seqs), kThreads, L::kBytes>>>(
      q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq,
      scale);
}

// Six heads at once where that saves a unit. Work for heads that do not exist costs less than code for each size.
template <int D, typename... Args>
void launch_for_group(int group, Args... args) {
  if ((group + 3) / 4 > (group + 5) / 6) launch<D, 6>(args...);
  else launch<D, 4>(args...);
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const int group = num_heads / num_kv_heads;
  if (head_dim == 64)
    launch_for_group<64>(group, q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads,
                         num_kv_heads, page_size, max_blocks_per_seq, scale);
  else
    launch_for_group<128>(group, q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads,
                          num_kv_heads, page_size, max_blocks_per_seq, scale);
}
