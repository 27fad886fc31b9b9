// Paged decode attention, rung 6: the work of all sequences is cut into equal shares, whatever their lengths.
// Needs sm_90.
//
// Idea   Rung 5 gives a sequence to a block: a short batch leaves most multiprocessors idle, and one long sequence is
//        waited for by all. Here the tiles of all sequences form one line, in order; each block takes an equal share
//        of it, wherever sequences begin and end. The host knows no lengths, so each warp finds its block's place by
//        a prefix sum over context_lens. A sequence that lies in one share is finished there. Of one that is cut,
//        each block leaves a piece (m, l, o) in scratch memory and counts itself; the block that comes last merges:
//            m = max m_b,   l = sum 2^(m_b - m) l_b,   out = sum 2^(m_b - m) o_b / l     (o_b not yet normalised)
//        The ring of rung 5 runs on from one sequence to the next, so that loads never pause at a sequence's end.
// Cost   K and V once. A share has at most two pieces, one at each end, of (head_dim + 2) floats a query head,
//        written and read once: a few MB in all, and independent of the lengths.
// Gain   All multiprocessors finish together: 32 sequences of which one is 16 times as long take no longer than 47
//        equal ones. One launch; the merge costs the last block a few reads from L2.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kLanes = 16;                    // share a token: each owns head_dim / 16 dimensions of it
constexpr int kTokens = 2;                    // of a lane in a tile
constexpr int kTile = kTokens * kWarp / kLanes;  // tokens of a warp in a tile
constexpr int kTilesAhead = kWarp / kTile;    // tiles whose pages a warp looks up at once: a token for each lane
constexpr int kStages = 3;                    // tiles of the ring
constexpr float kNoScore = -1e30f;            // below any score, yet finite: 2^(kNoScore - kNoScore) is no NaN
constexpr float kLog2e = 1.4426950408889634f;

// Heads served at once cost registers, so the more of them the fewer warps.
constexpr int warps_for(int heads) { return heads <= 4 ? 16 : heads <= 6 ? 12 : 8; }

struct Decode {
  const float* __restrict__ q;
  const float* __restrict__ k_cache;
  const float* __restrict__ v_cache;
  const int* __restrict__ block_table;
  const int* __restrict__ context_lens;
  float* __restrict__ out;
  float* piece_o;     // [units][shares][2][heads][D]
  float2* piece_ml;   // [units][shares][2][heads]: m, l
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
  const int bytes = wanted ? 16 : 0;  // the rest of the 16 is filled with zeros
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
  a.x += w * b.x; a.y += w * b.y; a.z += w * b.z; a.w += w * b.w;
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

// The share of a block, and a cursor somewhere before it. Each lane sums a run of sequences.
struct Share {
  int first, last;  // tiles of the line
  int length;       // tiles of every share; the last ones may have fewer
  Cursor start;
};

template <int kBlockTile>
__device__ Share find_share(const int* context_lens, int num_seqs) {
  const int lane = threadIdx.x % kWarp, run = (num_seqs + kWarp - 1) / kWarp;
  int tiles = 0;
  for (int seq = lane * run; seq < min(num_seqs, (lane + 1) * run); ++seq)
    tiles += (context_lens[seq] + kBlockTile - 1) / kBlockTile;
  int upto = tiles;  // inclusive prefix sum
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const int before = __shfl_up_sync(kAllLanes, upto, offset);
    if (lane >= offset) upto += before;
  }
  const int total = __shfl_sync(kAllLanes, upto, kWarp - 1);
  Share share;
  share.length = (total + gridDim.y - 1) / gridDim.y;
  share.first = min(static_cast<int>(blockIdx.y) * share.length, total);
  share.last = min(share.first + share.length, total);
  const int owner = max(__ffs(__ballot_sync(kAllLanes, upto > share.first)) - 1, 0);
  const int before = __shfl_sync(kAllLanes, upto - tiles, owner);
  share.start = {owner * run - 1, 0, before, before};
  return share;
}

// What a lane has of the attention of kHeads query heads: the tokens of its half of the warp, its own dimensions.
template <int D, int kHeads>
struct Attention {
  static constexpr int kVecs = D / (4 * kLanes);  // a lane's dimensions are 64 * vec + 4 * (lane % 16) + 0..3
  float4 q[kHeads][kVecs], o[kHeads][kVecs];
  float m[kHeads], l[kHeads];

  __device__ __forceinline__ void start(const float* row, int heads, float scale) {
    const int offset = threadIdx.x % kLanes * 4;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      m[h] = kNoScore;
      l[h] = 0.f;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        o[h][vec] = make_float4(0.f, 0.f, 0.f, 0.f);
        q[h][vec] = o[h][vec];
        if (h < heads) q[h][vec] = scale * *reinterpret_cast<const float4*>(row + h * D + vec * 4 * kLanes + offset);
      }
    }
  }

  // scores[t][h] of the lane's tokens, the same in all lanes that share a token.
  __device__ __forceinline__ void score(const float4* keys, int tokens, float (&scores)[kTokens][kHeads]) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) scores[t][h] = 0.f;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        const float4 key = keys[(t * kVecs + vec) * kWarp];
#pragma unroll
        for (int h = 0; h < kHeads; ++h) scores[t][h] += dot(q[h][vec], key);
      }
    }
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2)
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
#pragma unroll
        for (int h = 0; h < kHeads; ++h) scores[t][h] += __shfl_xor_sync(kAllLanes, scores[t][h], offset);
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
        if (t * (kWarp / kLanes) >= tokens) scores[t][h] = -INFINITY;
  }

  // Scores become weights. The maximum seldom grows, so what was summed is seldom rescaled.
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
    if (grows) {
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float correction = exp2_approx(m[h] - top[h]);
        m[h] = top[h];
        l[h] *= correction;
#pragma unroll
        for (int vec = 0; vec < kVecs; ++vec) o[h][vec] = correction * o[h][vec];
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        scores[t][h] = exp2_approx(scores[t][h] - m[h]);
        l[h] += scores[t][h];
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

  // The two halves of the warp become one, which lies in shared memory: o [kHeads][D], ml [kHeads].
  __device__ __forceinline__ void leave(float* shared_o, float2* shared_ml) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float top = fmaxf(m[h], __shfl_xor_sync(kAllLanes, m[h], kLanes));
      const float correction = exp2_approx(m[h] - top);
      l[h] *= correction;
      l[h] += __shfl_xor_sync(kAllLanes, l[h], kLanes);
      if (lane == 0) shared_ml[h] = make_float2(top, l[h]);
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec) {
        float4 x = correction * o[h][vec];
        x.x += __shfl_xor_sync(kAllLanes, x.x, kLanes);
        x.y += __shfl_xor_sync(kAllLanes, x.y, kLanes);
        x.z += __shfl_xor_sync(kAllLanes, x.z, kLanes);
        x.w += __shfl_xor_sync(kAllLanes, x.w, kLanes);
        if (lane < kLanes) *reinterpret_cast<float4*>(shared_o + h * D + (vec * kLanes + lane) * 4) = x;
      }
    }
  }
};

// One element of the merge of `count` pieces: piece p has its element at o[p * o_stride], its m and l at ml[p * stride].
struct Merged {
  float m, l, o;
};

__device__ __forceinline__ void merge(Merged& into, float2 ml, float o) {
  const float top = fmaxf(into.m, ml.x);
  const float old = exp2_approx(into.m - top), fresh = exp2_approx(ml.x - top);
  into = {top, old * into.l + fresh * ml.y, old * into.o + fresh * o};
}

template <int D, int kHeads>
struct Layout {
  static constexpr int kWarps = warps_for(kHeads), kThreads = kWarps * kWarp;
  static constexpr int kBlockTile = kWarps * kTile;
  static constexpr int kTensorVecs = kTokens * Attention<D, kHeads>::kVecs * kWarp;  // K or V of one warp's tile
  static constexpr int kRingVecs = kWarps * kStages * 2 * kTensorVecs;
  static constexpr int kBytes = kRingVecs * 16 + kWarps * kHeads * (D * 4 + 8);
};

// Block: kWarps warps. Grid: (units, shares); a unit is up to kHeads query heads of one KV head.
template <int D, int kHeads>
__global__ void __launch_bounds__(Layout<D, kHeads>::kThreads, 1) decode_share(const Decode d) {
  using L = Layout<D, kHeads>;
  constexpr int kVecs = Attention<D, kHeads>::kVecs, kWarps = L::kWarps, kBlockTile = L::kBlockTile;
  extern __shared__ float4 shared[];
  __shared__ bool is_last;

  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
  const int group = d.num_heads / d.num_kv_heads, units_per_kv_head = (group + kHeads - 1) / kHeads;
  const int unit = blockIdx.x, kv_head = unit / units_per_kv_head;
  const int first_head = kv_head * group + unit % units_per_kv_head * kHeads;
  const int heads = min(kHeads, (kv_head + 1) * group - first_head);

  float4* ring = shared + warp * kStages * 2 * L::kTensorVecs + lane;  // what this lane copies, it alone reads
  float* shared_o = reinterpret_cast<float*>(shared + L::kRingVecs);
  float2* shared_ml = reinterpret_cast<float2*>(shared_o + kWarps * kHeads * D);

  const Share share = find_share<kBlockTile>(d.context_lens, d.num_seqs);

  // The slot in the cache of token lane % kTile of this warp in tile lane / kTile of the next kTilesAhead; -1: none.
  Cursor ahead = share.start;
  auto look_up = [&](int tile) {
    tile += lane / kTile;
    if (tile >= share.last) return -1;
    advance<kBlockTile>(ahead, tile, d.context_lens);
    const int token = (tile - ahead.first) * kBlockTile + warp * kTile + lane % kTile;
    if (token >= ahead.context) return -1;
    const int* pages = d.block_table + static_cast<size_t>(ahead.seq) * d.max_blocks_per_seq;
    return pages[token / d.page_size] * d.page_size + token % d.page_size;
  };
  int slots = -1, next_slots = look_up(share.first);

  auto request = [&](int tile, const float* cache, int tensor) {
    const int i = tile - share.first;
    float4* to = ring + (i % kStages * 2 + tensor) * L::kTensorVecs;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int slot = __shfl_sync(kAllLanes, slots, i % kTilesAhead * kTile + t * (kWarp / kLanes) + lane / kLanes);
      const size_t row = static_cast<size_t>(max(slot, 0)) * d.num_kv_heads + kv_head;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec)
        copy_16_bytes(to + (t * kVecs + vec) * kWarp, cache + row * D + (vec * kLanes + lane % kLanes) * 4, slot >= 0);
    }
    end_group();
  };
  auto request_keys = [&](int tile) {
    if ((tile - share.first) % kTilesAhead == 0) {
      slots = next_slots;
      next_slots = look_up(tile + kTilesAhead);
    }
    request(tile, d.k_cache, 0);
  };
  auto request_values = [&](int tile) { request(tile, d.v_cache, 1); };

#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i) {
    request_keys(share.first + i);
    request_values(share.first + i);
  }

  // Empty sequences are in no share.
  for (int seq = blockIdx.y; seq < d.num_seqs; seq += gridDim.y)
    if (d.context_lens[seq] == 0)
      for (int e = tid; e < heads * D; e += L::kThreads)
        d.out[(static_cast<size_t>(seq) * d.num_heads + first_head) * D + e] = 0.f;

  Cursor here = share.start;
  for (int tile = share.first; tile < share.last;) {
    advance<kBlockTile>(here, tile, d.context_lens);
    const int stop = min(here.end, share.last);
    const size_t row = static_cast<size_t>(here.seq) * d.num_heads + first_head;
    Attention<D, kHeads> attention;
    attention.start(d.q + row * D, heads, d.scale * kLog2e);

    for (; tile < stop; ++tile) {
      const float4* stage = ring + (tile - share.first) % kStages * 2 * L::kTensorVecs;
      const int tokens = here.context - (tile - here.first) * kBlockTile - warp * kTile - lane / kLanes;
      float scores[kTokens][kHeads];
      request_keys(tile + kStages - 1);
      wait_for_groups<2 * kStages - 2>();  // the keys of this tile are there
      attention.score(stage, tokens, scores);
      attention.weigh(scores);
      request_values(tile + kStages - 1);
      wait_for_groups<2 * kStages - 2>();  // the values of this tile are there
      attention.sum(stage + L::kTensorVecs, scores);
    }

    __syncthreads();  // nobody needs the sums of the sequence before
    attention.leave(shared_o + warp * kHeads * D, shared_ml + warp * kHeads);
    __syncthreads();

    const bool whole = here.first >= share.first && here.end <= share.last;
    const size_t pieces = static_cast<size_t>(unit) * gridDim.y * 2;
    const size_t piece = pieces + blockIdx.y * 2 + (here.first >= share.first);
    for (int e = tid; e < heads * D; e += L::kThreads) {
      Merged sum = {kNoScore, 0.f, 0.f};
#pragma unroll 4
      for (int w = 0; w < kWarps; ++w) merge(sum, shared_ml[w * kHeads + e / D], shared_o[w * kHeads * D + e]);
      if (whole) {
        d.out[row * D + e] = sum.o / sum.l;
      } else {
        d.piece_o[piece * kHeads * D + e] = sum.o;
        if (e % D == 0) d.piece_ml[piece * kHeads + e / D] = make_float2(sum.m, sum.l);
      }
    }
    if (whole) continue;

    // The block whose piece comes last merges all of them.
    __threadfence();
    __syncthreads();
    const int first_block = here.first / share.length, last_block = (here.end - 1) / share.length;
    if (tid == 0)
      is_last = atomicAdd(&d.arrived[static_cast<size_t>(here.seq) * gridDim.x + unit], 1u) ==
                static_cast<unsigned>(last_block - first_block);
    __syncthreads();
    if (!is_last) continue;
    __threadfence();
    for (int e = tid; e < heads * D; e += L::kThreads) {
      Merged sum = {kNoScore, 0.f, 0.f};
#pragma unroll 8
      for (int b = first_block; b <= last_block; ++b) {
        const size_t p = pieces + b * 2 + (b == first_block);
        merge(sum, d.piece_ml[p * kHeads + e / D], d.piece_o[p * kHeads * D + e]);
      }
      d.out[row * D + e] = sum.o / sum.l;
    }
  }
}

// Shares for each unit, so that the blocks fill the multiprocessors nearly whole times.
int choose_shares(int units) {
  int multiprocessors = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  int shares = 1;
  for (int waves = 1; waves <= 8; ++waves) {
    shares = waves * multiprocessors / units;
    if (shares * units * 10 >= waves * multiprocessors * 9) return shares;
  }
  return shares > 0 ? shares : 1;
}

template <int D, int kHeads>
void launch(Decode d) {
  using L = Layout<D, kHeads>;
  const int group = d.num_heads / d.num_kv_heads;
  const int units = d.num_kv_heads * ((group + kHeads - 1) / kHeads), shares = choose_shares(units);
  const size_t pieces = static_cast<size_t>(units) * shares * 2, counters = static_cast<size_t>(d.num_seqs) * units;
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

template <int D>
void launch_for_group(const Decode& d) {
  const int group = d.num_heads / d.num_kv_heads;
  if (group == 1) launch<D, 1>(d);
  else if (group == 2) launch<D, 2>(d);
  else if (group <= 4) launch<D, 4>(d);
  else if (group <= 6) launch<D, 6>(d);
  else launch<D, 8>(d);
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const Decode d = {q, k_cache, v_cache, block_table, context_lens, out, nullptr, nullptr, nullptr,
                    num_seqs, num_heads, num_kv_heads, page_size, max_blocks_per_seq, scale};
  if (head_dim == 64) launch_for_group<64>(d);
  else launch_for_group<128>(d);
}
