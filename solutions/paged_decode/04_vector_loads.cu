// Paged decode attention, rung 4: bfloat16, loaded 16 bytes at a time, with several tokens on their way.
//
// Idea      Rung 3 loads one element at a time and waits for a tile before it works on it. Here a lane loads 16 bytes,
//           eight neighbouring dimensions of a token in bfloat16, so that head_dim / 8 lanes hold a token and a warp
//           two tokens (four at head_dim 64). A bfloat16 is the upper half of a float: converting is a shift or a mask.
//           1. Each lane asks for its part of kTokens keys and as many values at once, then works: they need no shared
//              memory, because all query heads of the group are served by the same lane, from registers.
//           2. A page's number is needed before its tokens. A lane looks up one token, 32 of them a batch ahead.
//           3. What was summed is rescaled only when a maximum grows, which after the first tiles is seldom.
//           Warps work on different tokens and meet once, at the end.
// Cost      2 * context * head_dim bfloat16 for each KV head: half of rung 3's bytes. For 16 bytes 8 conversions and 8
//           multiply-adds for each head of the group; log2(head_dim / 8) shuffles for each score.
// Gain      A quarter as many load instructions for each byte, 4 KB under way for each warp. With a group of four some
//           150 instructions go with 1 KB of cache: now the arithmetic units are as near their limit as the memory.
// Measured  NVIDIA H200: seqs_64_len_4096 296 us, 3,633 GB/s (78 % of the speed of light); seqs_1_len_131072 3,213 us,
//           167 GB/s (4 % of the speed of light); one_65536_among_31_of_4096 1,658 us, 476 GB/s (10 % of the speed of
//           light). Score 12.0.
// Modelled  k_cache and v_cache 1.0x; q 8x from L1, because every warp reads the rows of its heads.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarps = 8, kThreads = kWarps * kWarp;
constexpr int kVec = 8;             // bfloat16 in 16 bytes
constexpr int kTokens = 4;          // of a lane in a tile
constexpr float kNoScore = -1e30f;  // below any score, yet finite: 2^(kNoScore - kNoScore) is no NaN
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ void unpack(uint4 packed, float (&x)[kVec]) {
  const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(words[i] << 16);
    x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// What a lane has of the attention of kHeads query heads: its own eight dimensions, every token that it has met.
template <int D, int kHeads>
struct Attention {
  static constexpr int kLanes = D / kVec;  // share a token
  float q[kHeads][kVec], o[kHeads][kVec], m[kHeads], l[kHeads];

  __device__ __forceinline__ void start(const __nv_bfloat16* row, int heads, float scale) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      uint4 packed = make_uint4(0, 0, 0, 0);
      if (h < heads) packed = reinterpret_cast<const uint4*>(row + h * D)[threadIdx.x % kLanes];
      unpack(packed, q[h]);
      m[h] = kNoScore;
      l[h] = 0.f;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        q[h][i] *= scale;
        o[h][i] = 0.f;
      }
    }
  }

  // The same in all lanes that share the token.
  __device__ __forceinline__ void score(uint4 packed, bool valid, float (&scores)[kHeads]) {
    float key[kVec];
    unpack(packed, key);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      scores[h] = 0.f;
#pragma unroll
      for (int i = 0; i < kVec; ++i) scores[h] += q[h][i] * key[i];
#pragma unroll
      for (int offset = kLanes / 2; offset > 0; offset /= 2)
        scores[h] += __shfl_xor_sync(kAllLanes, scores[h], offset);
      if (!valid) scores[h] = -INFINITY;
    }
  }

  __device__ __forceinline__ void rescale(const float (&top)[kHeads]) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float correction = exp2_approx(m[h] - top[h]);
      m[h] = top[h];
      l[h] *= correction;
#pragma unroll
      for (int i = 0; i < kVec; ++i) o[h][i] *= correction;
    }
  }

  // Scores become weights.
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

  __device__ __forceinline__ void add(uint4 packed, const float (&weights)[kHeads]) {
    float value[kVec];
    unpack(packed, value);
#pragma unroll
    for (int h = 0; h < kHeads; ++h)
#pragma unroll
      for (int i = 0; i < kVec; ++i) o[h][i] += weights[h] * value[i];
  }

  // The lanes that own the same dimensions of other tokens become one; then shared memory: o [kHeads][D], ml [kHeads].
  __device__ __forceinline__ void leave(float* shared_o, float2* shared_ml) {
    const int lane = threadIdx.x % kWarp;
    float top[kHeads];
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      top[h] = m[h];
      for (int offset = kLanes; offset < kWarp; offset *= 2)
        top[h] = fmaxf(top[h], __shfl_xor_sync(kAllLanes, top[h], offset));
    }
    rescale(top);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      for (int offset = kLanes; offset < kWarp; offset *= 2) {
        l[h] += __shfl_xor_sync(kAllLanes, l[h], offset);
#pragma unroll
        for (int i = 0; i < kVec; ++i) o[h][i] += __shfl_xor_sync(kAllLanes, o[h][i], offset);
      }
      if (lane == 0) shared_ml[h] = make_float2(m[h], l[h]);
      if (lane >= kLanes) continue;
      float4* to = reinterpret_cast<float4*>(shared_o + h * D + lane * kVec);
      to[0] = make_float4(o[h][0], o[h][1], o[h][2], o[h][3]);
      to[1] = make_float4(o[h][4], o[h][5], o[h][6], o[h][7]);
    }
  }
};

// Block: kWarps warps. Grid: (units, num_seqs); a unit is up to kHeads query heads of one KV head.
template <int D, int kHeads>
__global__ void __launch_bounds__(kThreads, kHeads <= 4 ? 2 : 1)
decode_vectors(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k_cache,
               const __nv_bfloat16* __restrict__ v_cache, const int* __restrict__ block_table,
               const int* __restrict__ context_lens, __nv_bfloat16* __restrict__ out, int num_heads,
               int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  constexpr int kLanes = D / kVec, kAtOnce = kWarp / kLanes;  // tokens that the lanes of a warp hold side by side
  constexpr int kTile = kTokens * kAtOnce, kBlockTile = kWarps * kTile;  // tokens of a warp, of the block
  constexpr int kTilesAhead = kWarp / kTile;  // whose pages a warp looks up at once: a token for each lane
  static_assert(kWarp % kTile == 0, "a batch of 32 tokens is a whole number of tiles");
  __shared__ __align__(16) float shared_o[kWarps][kHeads][D];
  __shared__ float2 shared_ml[kWarps][kHeads];

  const int tid = threadIdx.x, lane = tid % kWarp, warp = tid / kWarp;
  const int group = num_heads / num_kv_heads, units_per_kv_head = (group + kHeads - 1) / kHeads;
  const int kv_head = blockIdx.x / units_per_kv_head, seq = blockIdx.y;
  const int first_head = kv_head * group + blockIdx.x % units_per_kv_head * kHeads;
  const int heads = min(kHeads, (kv_head + 1) * group - first_head);
  const size_t row = static_cast<size_t>(seq) * num_heads + first_head;
  const int context = context_lens[seq], tiles = (context + kBlockTile - 1) / kBlockTile;
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;

  // The slot in the cache of token lane % kTile of this warp in tile lane / kTile of the next kTilesAhead; -1: none.
  auto look_up = [&](int tile) {
    const int token = (tile + lane / kTile) * kBlockTile + warp * kTile + lane % kTile;
    return token < context ? pages[token / page_size] * page_size + token % page_size : -1;
  };
  int slots = -1, next_slots = look_up(0);

  Attention<D, kHeads> attention;
  attention.start(q + row * D, heads, scale * kLog2e);
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile % kTilesAhead == 0) {
      slots = next_slots;
      next_slots = look_up(tile + kTilesAhead);
    }
    uint4 keys[kTokens], values[kTokens];
    bool valid[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const int slot = __shfl_sync(kAllLanes, slots, tile % kTilesAhead * kTile + t * kAtOnce + lane / kLanes);
      valid[t] = slot >= 0;
      keys[t] = values[t] = make_uint4(0, 0, 0, 0);
      const size_t at = (static_cast<size_t>(slot) * num_kv_heads + kv_head) * D + lane % kLanes * kVec;
      if (valid[t]) {
        keys[t] = *reinterpret_cast<const uint4*>(k_cache + at);
        values[t] = *reinterpret_cast<const uint4*>(v_cache + at);
      }
    }
    float scores[kTokens][kHeads];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) attention.score(keys[t], valid[t], scores[t]);
    attention.weigh(scores);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) attention.add(values[t], scores[t]);
  }

  attention.leave(&shared_o[warp][0][0], shared_ml[warp]);
  __syncthreads();
  for (int e = tid; e < heads * D; e += kThreads) {
    const int head = e / D;
    float m = kNoScore, l = 0.f, o = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) m = fmaxf(m, shared_ml[w][head].x);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2_approx(shared_ml[w][head].x - m);
      l += weight * shared_ml[w][head].y;
      o += weight * shared_o[w][head][e % D];
    }
    out[row * D + e] = __float2bfloat16_rn(context > 0 ? o / l : 0.f);
  }
}

template <int D, int kHeads>
void launch(const __nv_bfloat16* q, const __nv_bfloat16* k_cache, const __nv_bfloat16* v_cache,
            const int* block_table, const int* context_lens, __nv_bfloat16* out, int num_seqs, int num_heads,
            int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  const int units = num_kv_heads * ((num_heads / num_kv_heads + kHeads - 1) / kHeads);
  decode_vectors<D, kHeads><<<dim3(units, num_seqs), kThreads>>>(q, k_cache, v_cache, block_table, context_lens, out,
                                                                 num_heads, num_kv_heads, page_size,
                                                                 max_blocks_per_seq, scale);
}

// Six heads at once where that saves a unit. Work for heads that do not exist costs less than code for each size.
template <int D, typename... Args>
void launch_for_group(int group, Args... args) {
  if ((group + 3) / 4 > (group + 5) / 6) launch<D, 6>(args...);
  else launch<D, 4>(args...);
}

extern "C" void solve(const __nv_bfloat16* q, const __nv_bfloat16* k_cache, const __nv_bfloat16* v_cache,
                      const int* block_table, const int* context_lens, __nv_bfloat16* out, int num_seqs,
                      int num_heads, int num_kv_heads, int head_dim, int page_size, int max_blocks_per_seq,
                      int max_context_len, float scale) {
  const int group = num_heads / num_kv_heads;
  if (head_dim == 64)
    launch_for_group<64>(group, q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads,
                         num_kv_heads, page_size, max_blocks_per_seq, scale);
  else
    launch_for_group<128>(group, q, k_cache, v_cache, block_table, context_lens, out, num_seqs, num_heads,
                          num_kv_heads, page_size, max_blocks_per_seq, scale);
}
