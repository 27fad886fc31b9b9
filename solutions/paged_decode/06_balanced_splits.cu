// Paged decode attention, rung 6: the work of all sequences is cut into equal shares, whatever their lengths.
// Needs sm_90.
//
// Idea      Rung 5 gives a sequence to a block: a short batch leaves most multiprocessors idle, and one long sequence
//           is waited for by all. Here the tiles of all sequences form one line, in order; each block takes an equal
//           share of it, wherever sequences begin and end. The host knows no lengths, so each warp finds its block's
//           place by a prefix sum over context_lens. A sequence that lies in one share is finished there. Of one that
//           is cut, each block leaves a piece (m, l, o) in scratch memory and counts itself; the block that comes last
//           merges:
//               m = max m_b,   l = sum 2^(m_b - m) l_b,   out = sum 2^(m_b - m) o_b / l     (o_b not yet normalised)
//           The ring of rung 5 runs on from one sequence to the next: at a sequence's end the loads do not pause.
// Cost      K and V once. A share has at most two pieces, one at each end, of head_dim + 2 floats a query head, written
//           and read once: 1 MB in all for 32 query heads, whatever the lengths. One block on each multiprocessor, so
//           that there are few pieces, with 195 KB of shared memory: 128 KB of ring, and the half warps' sums behind
//           it.
// Gain      All multiprocessors have equally much to do: 32 sequences of which one is 16 times as long take no longer
//           than 47 equal ones. One launch; the merge costs the last block one journey to L2 for 16 pieces.
// Measured  NVIDIA H200: seqs_64_len_4096 478 us, 4,495 GB/s (96 % of the speed of light); seqs_1_len_131072 246 us,
//           4,368 GB/s (94 % of the speed of light); one_65536_among_31_of_4096 360 us, 4,388 GB/s (94 % of the speed
//           of light). Score 60.7.
// Modelled  k_cache and v_cache 1.0x, scratch 1.0x written and read; q 64x, because every warp reads the rows of its
//           heads for every piece, and block_table 32x, once for each of 8 KV heads and each token in place of each
//           page: both from L1 and L2.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kLanes = 16, kHalves = kWarp / kLanes;  // lanes that share a token: each owns head_dim / 16 dimensions
constexpr int kTokens = 2;                            // of a lane in a tile
constexpr int kTile = kTokens * kHalves;              // tokens of a warp in a tile
constexpr int kTilesAhead = kWarp / kTile;            // tiles whose pages are looked up at once: a token for each lane
constexpr float kNoScore = -1e30f;                    // below any score, yet finite: kNoScore - kNoScore is no NaN
constexpr float kLog2e = 1.4426950408889634f;

struct Decode {
  const float* q;
  const float* k_cache;
  const float* v_cache;
  const int* block_table;
  const int* context_lens;
  float* out;
  float* piece_o;     // [units][shares + num_seqs][heads][D]: moving on along the line steps to the next share or to
  float2* piece_ml;   // [units][shares + num_seqs][heads]     the next sequence, so that share + seq numbers pieces
  unsigned* arrived;  // [num_seqs][units]: pieces that lie in scratch memory
  int num_seqs, num_heads, num_kv_heads, page_size, max_blocks_per_seq;
  float scale;
};

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

// The line of work: the tiles of sequence 0, of sequence 1, ... A cursor stands at one sequence of it.
struct Cursor {
  int seq, context;
  int first, end;  // tiles of the line that are this sequence's
};

template <int kBlockTile>
__device__ __forceinline__ void advance(Cursor& at, int tile, const int* context_lens) {
  while (tile >= at.end) {
    at.context = context_lens[++at.seq];
    at.first = at.end;
    at.end += (at.context + kBlockTile - 1) / kBlockTile;
  }
}

struct Share {
  int first, end;  // tiles of the line
  int length;      // tiles of every share, but that the last ones may have fewer
  Cursor before;   // some way before `first`
};

// The block's share of the line. Each lane sums the tiles of a run of sequences.
template <int kBlockTile>
__device__ Share find_share(const int* context_lens, int num_seqs) {
  const int lane = threadIdx.x % kWarp, run = (num_seqs + kWarp - 1) / kWarp;
  int tiles = 0;
  for (int seq = lane * run; seq < min(num_seqs, (lane + 1) * run); ++seq)
    tiles += (context_lens[seq] + kBlockTile - 1) / kBlockTile;
  int upto = tiles;  // inclusive prefix sum
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int before = __shfl_up_sync(kAllLanes, upto, offset);
    if (lane >= offset) upto += before;
  }
  const int total = __shfl_sync(kAllLanes, upto, kWarp - 1);
  Share share;
  share.length = (total + gridDim.y - 1) / gridDim.y;
  share.first = min(static_cast<int>(blockIdx.y) * share.length, total);
  share.end = min(share.first + share.length, total);
  const int owner = max(__ffs(__ballot_sync(kAllLanes, upto > share.first)) - 1, 0);  // the run where it begins
  const int before = __shfl_sync(kAllLanes, upto - tiles, owner);
  share.before = {owner * run - 1, 0, before, before};
  return share;
}

// Query heads served at once cost registers, so the more of them the fewer warps.
template <int D, int kHeads>
struct Layout {
  static constexpr int kWarps = kHeads <= 4 ? 16 : 12, kThreads = kWarps * kWarp;
  static constexpr int kStages = 32 / kWarps;        // tiles of the ring: 96 to 128 KB for head_dim 128
  static constexpr int kBlockTile = kWarps * kTile;  // tokens of the block in a tile
  static constexpr int kTensorVecs = kTokens * Attention<D, kHeads>::kVecs * kWarp;  // K or V of a warp's tile
  static constexpr int kRingVecs = kWarps * kStages * 2 * kTensorVecs;
  static constexpr int kPieces = kWarps * kHalves;
  static constexpr int kPieceBytes = kHeads * static_cast<int>(D * sizeof(float) + sizeof(float2));
  // The ring runs on while pieces are merged, so they lie behind it; then a flag.
  static constexpr int kBytes = kRingVecs * static_cast<int>(sizeof(float4)) + kPieces * kPieceBytes + 1;
};

// Up to kHeads query heads of one KV head.
struct Unit {
  int kv_head, first_head, heads;
};

template <int kHeads>
__device__ __forceinline__ Unit unit_of(int number, int num_heads, int num_kv_heads) {
  const int group = num_heads / num_kv_heads, units = (group + kHeads - 1) / kHeads;  // of a KV head
  const int kv_head = number / units, first_head = kv_head * group + number % units * kHeads;
  return {kv_head, first_head, min(kHeads, (kv_head + 1) * group - first_head)};
}

// Empty sequences are in no share.
template <int D>
__device__ void write_zeros_for_empty_sequences(const Decode& d, Unit unit) {
  for (int seq = blockIdx.y; seq < d.num_seqs; seq += gridDim.y)
    if (d.context_lens[seq] == 0)
      for (int e = threadIdx.x; e < unit.heads * D; e += blockDim.x)
        d.out[(static_cast<size_t>(seq) * d.num_heads + unit.first_head) * D + e] = 0.f;
}

// Counts this block's piece. True for the block that finds all others there.
__device__ bool is_last(unsigned* arrived, int pieces, bool* shared_flag) {
  __syncthreads();  // all threads have written their part
  if (threadIdx.x == 0) {
    __threadfence();  // what the barrier has shown to this thread is there for all blocks
    *shared_flag = atomicAdd(arrived, 1u) == static_cast<unsigned>(pieces - 1);
    __threadfence();
  }
  __syncthreads();
  return *shared_flag;
}

// Block: kWarps warps. Grid: (units, shares).
template <int D, int kHeads>
__global__ void __launch_bounds__(Layout<D, kHeads>::kThreads, 1) decode_share(const Decode d) {
  using L = Layout<D, kHeads>;
  constexpr int kVecs = Attention<D, kHeads>::kVecs, kStages = L::kStages, kBlockTile = L::kBlockTile;
  extern __shared__ __align__(128) float4 shared[];  // rung 5 says why it has to begin at a multiple of 128 bytes

  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp, half = lane / kLanes;
  const Unit unit = unit_of<kHeads>(blockIdx.x, d.num_heads, d.num_kv_heads);

  float4* ring = shared + warp * kStages * 2 * L::kTensorVecs + lane;  // what this lane copies, it alone reads
  float* shared_o = reinterpret_cast<float*>(shared + L::kRingVecs);
  float2* shared_ml = reinterpret_cast<float2*>(shared_o + L::kPieces * kHeads * D);
  bool* shared_flag = reinterpret_cast<bool*>(shared_ml + L::kPieces * kHeads);

  const Share share = find_share<kBlockTile>(d.context_lens, d.num_seqs);

  // The slot in the cache of token lane % kTile of this warp in tile lane / kTile of the next kTilesAhead; -1: none.
  Cursor ahead = share.before;
  auto look_up = [&](int tile) {
    tile += lane / kTile;
    if (tile >= share.end) return -1;
    advance<kBlockTile>(ahead, tile, d.context_lens);
    const int token = (tile - ahead.first) * kBlockTile + warp * kTile + lane % kTile;
    if (token >= ahead.context) return -1;
    const int* pages = d.block_table + static_cast<size_t>(ahead.seq) * d.max_blocks_per_seq;
    return pages[token / d.page_size] * d.page_size + token % d.page_size;
  };
  int slots = look_up(share.first), next_slots = look_up(share.first + kTilesAhead);

  auto request = [&](int i, const float* cache, int tensor) {  // i: tile of the share
    float4* to = ring + (i % kStages * 2 + tensor) * L::kTensorVecs;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int slot = __shfl_sync(kAllLanes, slots, i % kTilesAhead * kTile + t * kHalves + half);
      const size_t cache_row = static_cast<size_t>(max(slot, 0)) * d.num_kv_heads + unit.kv_head;
      const float4* from = reinterpret_cast<const float4*>(cache + cache_row * D) + lane % kLanes;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec)
        copy_16_bytes(to + (t * kVecs + vec) * kWarp, from + vec * kLanes, slot >= 0);
    }
    end_group();  // behind the last tile as well, so that counting groups stays simple
  };

  static_assert(kStages < kTilesAhead, "the first tiles of the ring are looked up at once");
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) {
    request(i, d.k_cache, 0);
    request(i, d.v_cache, 1);
  }

  write_zeros_for_empty_sequences<D>(d, unit);  // while the first tiles are on their way

  Cursor here = share.before;
  for (int tile = share.first; tile < share.end;) {
    advance<kBlockTile>(here, tile, d.context_lens);
    const size_t row = (static_cast<size_t>(here.seq) * d.num_heads + unit.first_head) * D;
    Attention<D, kHeads> attention;
    attention.start(d.q + row, unit.heads, d.scale * kLog2e);

    for (const int end = min(here.end, share.end); tile < end; ++tile) {
      const int i = tile - share.first;
      if ((i + kStages) % kTilesAhead == 0) {
        slots = next_slots;
        next_slots = look_up(tile + kStages + kTilesAhead);
      }
      const float4* stage = ring + i % kStages * 2 * L::kTensorVecs;
      const int left = here.context - (tile - here.first) * kBlockTile - warp * kTile;  // tokens for this warp on
      float scores[kTokens][kHeads];
      wait_for_groups<2 * kStages - 1>();  // the keys of this tile are there
      attention.score(stage, (left - half + kHalves - 1) / kHalves, scores);
      request(i + kStages, d.k_cache, 0);  // in the place of those just read
      attention.weigh(scores);
      wait_for_groups<2 * kStages - 1>();  // the values of this tile are there
      attention.sum(stage + L::kTensorVecs, scores);
      request(i + kStages, d.v_cache, 1);
    }

    __syncthreads();  // nobody needs the pieces of the sequence before
    const int mine = warp * kHalves + half;
    attention.leave(shared_o + mine * kHeads * D, shared_ml + mine * kHeads);
    __syncthreads();

    const bool whole = here.first >= share.first && here.end <= share.end;
    const size_t first_piece = static_cast<size_t>(blockIdx.x) * (gridDim.y + d.num_seqs) + here.seq;  // of share 0
    float* o = whole ? d.out + row : d.piece_o + (first_piece + blockIdx.y) * kHeads * D;
    float2* ml = d.piece_ml + (first_piece + blockIdx.y) * kHeads;
    for (int e = tid; e < unit.heads * D; e += L::kThreads) {
      const Sum sum = merge<kHeads, D>(L::kPieces, shared_o + e, shared_ml + e / D);
      o[e] = whole ? sum.o / sum.l : sum.o;
      if (!whole && e % D == 0) ml[e / D] = make_float2(sum.m, sum.l);
    }
    if (whole) continue;

    const int from = here.first / share.length, pieces = (here.end - 1) / share.length - from + 1;
    if (!is_last(d.arrived + static_cast<size_t>(here.seq) * gridDim.x + blockIdx.x, pieces, shared_flag)) continue;
    o = d.piece_o + (first_piece + from) * kHeads * D;
    ml = d.piece_ml + (first_piece + from) * kHeads;
    for (int e = tid; e < unit.heads * D; e += L::kThreads) {
      const Sum sum = merge<kHeads, D>(pieces, o + e, ml + e / D);
      d.out[row + e] = sum.o / sum.l;
    }
  }
}

// Shares for each unit, so that the blocks fill the multiprocessors nearly a whole number of times.
int choose_shares(int units) {
  int multiprocessors = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  for (int waves = 1; waves <= 8; ++waves) {
    const int shares = waves * multiprocessors / units;
    if (shares * units * 10 >= waves * multiprocessors * 9) return shares;
  }
  return 1;
}

template <int D, int kHeads>
void launch(Decode d) {
  using L = Layout<D, kHeads>;
  const int units = d.num_kv_heads * ((d.num_heads / d.num_kv_heads + kHeads - 1) / kHeads);
  const int shares = choose_shares(units);
  const size_t pieces = static_cast<size_t>(units) * (shares + d.num_seqs);
  const size_t counters = static_cast<size_t>(d.num_seqs) * units;
  cudaMalloc(&d.piece_o, pieces * kHeads * D * sizeof(float));
  cudaMalloc(&d.piece_ml, pieces * kHeads * sizeof(float2));
  cudaMalloc(&d.arrived, counters * sizeof(unsigned));
  cudaMemsetAsync(d.arrived, 0, counters * sizeof(unsigned));

  cudaFuncSetAttribute(decode_share<D, kHeads>, cudaFuncAttributeMaxDynamicSharedMemorySize, L::kBytes);
  decode_share<D, kHeads><<<dim3(units, shares), L::kThreads, L::kBytes>>>(d);

  cudaFree(d.piece_o);
  cudaFree(d.piece_ml);
  cudaFree(d.arrived);
}

// Six heads at once where that saves a unit. Work for heads that do not exist costs less than code for each size.
template <int D>
void launch_for_group(const Decode& d) {
  const int group = d.num_heads / d.num_kv_heads;
  if ((group + 3) / 4 > (group + 5) / 6) launch<D, 6>(d);
  else launch<D, 4>(d);
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const Decode d = {q, k_cache, v_cache, block_table, context_lens, out, nullptr, nullptr, nullptr,
                    num_seqs, num_heads, num_kv_heads, page_size, max_blocks_per_seq, scale};
  if (head_dim == 64) launch_for_group<64>(d);
  else launch_for_group<128>(d);
}
