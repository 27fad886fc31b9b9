// A ring of three stages filled by cp.async: while one tile of keys and values is worked on, the next two are on their
// way. A block takes one kv head of one sequence, a warp each query head of its group; a lane holds D / 32 dimensions.
#include <cuda_runtime.h>

constexpr int kStages = 3;
constexpr int kTokens = 8;  // of a tile
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ void copy_16_bytes(void* to, const void* from) {
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All but this thread's newest N groups have arrived.
template <int N>
__device__ __forceinline__ void wait_for_groups() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

__device__ __forceinline__ float sum_over_warp(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) x += __shfl_xor_sync(0xffffffff, x, mask);
  return x;
}

template <int D>
struct Lane;
template <>
struct Lane<64> { using Type = float2; };
template <>
struct Lane<128> { using Type = float4; };

__device__ __forceinline__ float dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
__device__ __forceinline__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ __forceinline__ void scale_by(float2& a, float s) { a.x *= s; a.y *= s; }
__device__ __forceinline__ void scale_by(float4& a, float s) { a.x *= s; a.y *= s; a.z *= s; a.w *= s; }
__device__ __forceinline__ void add(float2& a, float w, float2 b) { a.x += w * b.x; a.y += w * b.y; }
__device__ __forceinline__ void add(float4& a, float w, float4 b) {
  a.x += w * b.x; a.y += w * b.y; a.z += w * b.z; a.w += w * b.w;
}

template <int D>
__global__ void __launch_bounds__(1024)
paged_attention(const float* __restrict__ q, const float* __restrict__ k_cache, const float* __restrict__ v_cache,
                const int* __restrict__ block_table, const int* __restrict__ context_lens, float* __restrict__ out,
                int num_heads, int num_kv_heads, int page_size, int max_blocks_per_seq, float scale) {
  using Part = typename Lane<D>::Type;  // of a row, for one lane
  constexpr int kChunks = D / 4;        // of 16 bytes in a row
  __shared__ alignas(16) float keys[kStages][kTokens][D], values[kStages][kTokens][D];

  const int lane = threadIdx.x, tid = threadIdx.y * 32 + lane, threads = blockDim.y * 32;
  const int kv_head = blockIdx.x, seq = blockIdx.y;
  const int context = context_lens[seq], tiles = (context + kTokens - 1) / kTokens;
  const int* pages = block_table + static_cast<size_t>(seq) * max_blocks_per_seq;

  auto request = [&](int tile) {
    if (tile < tiles) {
      const int first = tile * kTokens, chunks = min(kTokens, context - first) * kChunks, stage = tile % kStages;
      for (int i = tid; i < chunks; i += threads) {
        const int slot = i / kChunks, part = i % kChunks * 4, token = first + slot;
        const size_t row = static_cast<size_t>(pages[token / page_size]) * page_size + token % page_size;
        const size_t from = (row * num_kv_heads + kv_head) * D + part;
        copy_16_bytes(&keys[stage][slot][part], k_cache + from);
        copy_16_bytes(&values[stage][slot][part], v_cache + from);
      }
    }
    end_group();  // empty behind the last tile, so that counting groups stays simple
  };

  const size_t head = static_cast<size_t>(seq) * num_heads + kv_head * blockDim.y + threadIdx.y;
  Part query = reinterpret_cast<const Part*>(q + head * D)[lane], acc = {};
  scale_by(query, scale * kLog2e);
  float biggest = -INFINITY, sum = 0.f;

#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) request(tile);
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_groups<kStages - 2>();
    __syncthreads();  // this tile is there for all threads, and none still works on the one before it
    request(tile + kStages - 1);

    const int stage = tile % kStages, count = min(kTokens, context - tile * kTokens);
    float score[kTokens], tile_max = biggest;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      score[t] = -INFINITY;
      if (t < count) score[t] = sum_over_warp(dot(query, reinterpret_cast<const Part*>(keys[stage][t])[lane]));
      tile_max = fmaxf(tile_max, score[t]);
    }
    const float shrink = exp2f(biggest - tile_max);
    biggest = tile_max;
    sum *= shrink;
    scale_by(acc, shrink);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= count) break;
      const float weight = exp2f(score[t] - biggest);
      sum += weight;
      add(acc, weight, reinterpret_cast<const Part*>(values[stage][t])[lane]);
    }
  }

  scale_by(acc, context ? 1.f / sum : 0.f);
  reinterpret_cast<Part*>(out + head * D)[lane] = acc;
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_kv_heads, num_seqs), block(32, num_heads / num_kv_heads);
  if (head_dim == 64)
    paged_attention<64><<<grid, block>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads,
                                         page_size, max_blocks_per_seq, scale);
  else
    paged_attention<128><<<grid, block>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                          num_kv_heads, page_size, max_blocks_per_seq, scale);
}
