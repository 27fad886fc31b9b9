// Paged decode attention, rung 5: keys and values come through a ring in shared memory that cp.async fills.
// Needs sm_80.
//
// Idea   A load into registers holds its registers until it arrives, and so few bytes are under way. cp.async copies
//        from the cache to shared memory past the registers: each warp keeps a ring of kStages tiles, four tokens
//        each, and asks for a tile kStages - 1 tiles before it needs it. Keys and values are groups of their own, so
//        that scores begin while the values are still coming. Two more things fall away:
//        1. A lane reads of a tile just what it has itself copied, so that no thread ever waits for another: there is
//           no barrier in the loop, only "my copies have arrived".
//        2. A page's number is needed before its tokens. A lane looks up one token, 32 of them eight tiles ahead.
// Cost   As in rung 3, K and V once. In flight on each multiprocessor: 3 blocks of 4 warps with 3 to 4 tiles of 4 KB
//        (head_dim 128), 144 KB, where 32 KB would already hide the 700 ns of HBM at 4.8 TB/s.
//        For 16 bytes that a lane reads from shared memory: 4 multiply-adds for each of up to 8 query heads.
// Gain   The rate of the memory itself, wherever there are enough blocks: num_seqs * num_kv_heads of them.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kLanes = 16;                       // share a token: each owns head_dim / 16 dimensions of it
constexpr int kTokens = 2;                       // of a lane in a tile
constexpr int kTile = kTokens * kWarp / kLanes;  // tokens of a warp in a tile
constexpr int kBlockTile = kWarps * kTile;       // tokens of the block in a tile
constexpr int kTilesAhead = kWarp / kTile;       // tiles whose pages a warp looks up at once: a token for each lane
constexpr int kStages = 4;                       // tiles of the ring
constexpr float kNoScore = -1e30f;               // below any score, yet finite: 2^(kNoScore - kNoScore) is no NaN
constexpr float kLog2e = 1.4426950408889634f;

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

template <int D, int kHeads>
struct Layout {
  static constexpr int kTensorVecs = kTokens * Attention<D, kHeads>::kVecs * kWarp;  // K or V of one warp's tile
  static constexpr int kRingBytes = kWarps * kStages * 2 * kTensorVecs * 16;
  static constexpr int kSumBytes = kWarps * kHeads * (D * 4 + 8);  // at the end, in the ring's place
  static constexpr int kBytes = kRingBytes > kSumBytes ? kRingBytes : kSumBytes;
};

// Block: kWarps warps. Grid: (units, num_seqs); a unit is up to kHeads query heads of one KV head.
template <int D, int kHeads>
__global__ void __launch_bounds__(kThreads, kHeads <= 6 ? 3 : 2)
decode_ring(const float* __restrict__ q, const float* __restrict__ k_cache, const float* __restrict__ v_cache,
            const int* __restrict__ block_table, const int* __restrict__ context_lens, float* __restrict__ out,
            int num_heads, int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  using L = Layout<D, kHeads>;
  constexpr int kVecs = Attention<D, kHeads>::kVecs;
  extern __shared__ float4 shared[];

  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
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
  int slots = -1, next_slots = look_up(0);

  auto request = [&](int tile, const float* cache, int tensor) {
    float4* to = ring + (tile % kStages * 2 + tensor) * L::kTensorVecs;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int slot =
          __shfl_sync(kAllLanes, slots, tile % kTilesAhead * kTile + t * (kWarp / kLanes) + lane / kLanes);
      const size_t cache_row = static_cast<size_t>(max(slot, 0)) * num_kv_heads + kv_head;
#pragma unroll
      for (int vec = 0; vec < kVecs; ++vec)
        copy_16_bytes(to + (t * kVecs + vec) * kWarp, cache + cache_row * D + (vec * kLanes + lane % kLanes) * 4,
                      slot >= 0);
    }
    end_group();  // behind the last tile as well, so that counting groups stays simple
  };
  auto request_keys = [&](int tile) {
    if (tile % kTilesAhead == 0) {
      slots = next_slots;
      next_slots = look_up(tile + kTilesAhead);
    }
    request(tile, k_cache, 0);
  };
  auto request_values = [&](int tile) { request(tile, v_cache, 1); };

#pragma unroll 1
  for (int tile = 0; tile < kStages - 1; ++tile) {
    request_keys(tile);
    request_values(tile);
  }

  Attention<D, kHeads> attention;
  attention.start(q + row * D, heads, scale * kLog2e);
  for (int tile = 0; tile < tiles; ++tile) {
    const float4* stage = ring + tile % kStages * 2 * L::kTensorVecs;
    const int tokens = context - tile * kBlockTile - warp * kTile - lane / kLanes;
    float scores[kTokens][kHeads];
    request_keys(tile + kStages - 1);
    wait_for_groups<2 * kStages - 2>();  // the keys of this tile are there
    attention.score(stage, tokens, scores);
    attention.weigh(scores);
    request_values(tile + kStages - 1);
    wait_for_groups<2 * kStages - 2>();  // the values of this tile are there
    attention.sum(stage + L::kTensorVecs, scores);
  }

  wait_for_groups<0>();
  __syncthreads();  // nobody needs the ring any more
  float* shared_o = reinterpret_cast<float*>(shared);
  float2* shared_ml = reinterpret_cast<float2*>(shared_o + kWarps * kHeads * D);
  attention.leave(shared_o + warp * kHeads * D, shared_ml + warp * kHeads);
  __syncthreads();
  for (int e = tid; e < heads * D; e += kThreads) {
    float m = kNoScore, l = 0.f, o = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) m = fmaxf(m, shared_ml[w * kHeads + e / D].x);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float2 ml = shared_ml[w * kHeads + e / D];
      const float weight = exp2_approx(ml.x - m);
      l += weight * ml.y;
      o += weight * shared_o[w * kHeads * D + e];
    }
    out[row * D + e] = context > 0 ? o / l : 0.f;
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

template <int D, typename... Args>
void launch_for_group(int group, Args... args) {
  if (group == 1) launch<D, 1>(args...);
  else if (group == 2) launch<D, 2>(args...);
  else if (group <= 4) launch<D, 4>(args...);
  else if (group <= 6) launch<D, 6>(args...);
  else launch<D, 8>(args...);
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
