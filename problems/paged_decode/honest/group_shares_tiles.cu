// The query heads of a group share tiles of 16 tokens in shared memory; a warp for each head.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#define KV_ELEMENT float
#endif
#if FP8_SCALES  // solve() takes a factor for the keys and the values of each KV head
#define SCALES const float *k_scale, const float *v_scale,
#define K_SCALE(head) k_scale[head]
#define V_SCALE(head) v_scale[head]
#define PASS_SCALES k_scale, v_scale,
#else
#define SCALES
#define K_SCALE(head) 1.f
#define V_SCALE(head) 1.f
#define PASS_SCALES
#endif
using T = ELEMENT;
using KV = KV_ELEMENT;

constexpr int kTokens = 16;  // of a tile in shared memory
constexpr int kMost = 128;   // dimensions of a head

// A block for each KV head of a sequence, a warp for each query head of its group; keys and values by tiles, read once.
__global__ void decode(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                       const int* context_lens, T* out, int num_heads, int num_kv_heads, int head_dim, int page_size,
                       int columns, float scale) {
  __shared__ float keys[kTokens][kMost], values[kTokens][kMost];
  const int kv_head = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x, warp = threadIdx.y;
  const int length = context_lens[seq], tid = warp * 32 + lane, threads = 32 * blockDim.y;
  const int* pages = block_table + seq * columns;
  const size_t row = size_t(seq * num_heads + kv_head * blockDim.y + warp) * head_dim;
  float query[4], o[4], m = -INFINITY, l = 0.f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int d = lane + 32 * i;
    query[i] = d < head_dim ? float(q[row + d]) * scale * K_SCALE(kv_head) : 0.f;
    o[i] = 0.f;
  }
  for (int first = 0; first < length; first += kTokens) {
    const int count = min(kTokens, length - first);
    __syncthreads();  // all have used the tile before
    for (int i = tid; i < count * head_dim; i += threads) {
      const int t = first + i / head_dim, d = i % head_dim;
      const size_t slot = size_t(pages[t / page_size]) * page_size + t % page_size;
      keys[i / head_dim][d] = float(k_cache[(slot * num_kv_heads + kv_head) * head_dim + d]);
      values[i / head_dim][d] = float(v_cache[(slot * num_kv_heads + kv_head) * head_dim + d]);
    }
    __syncthreads();  // the tile is complete
    for (int j = 0; j < count; ++j) {
      float s = 0.f;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (lane + 32 * i < head_dim) s += query[i] * keys[j][lane + 32 * i];
      }
      for (int lanes = 16; lanes > 0; lanes /= 2) s += __shfl_xor_sync(0xffffffffu, s, lanes);
      const float top = fmaxf(m, s), correction = __expf(m - top), p = __expf(s - top);
      l = l * correction + p;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (lane + 32 * i < head_dim) o[i] = o[i] * correction + p * values[j][lane + 32 * i];
      }
      m = top;
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int d = lane + 32 * i;
    if (d < head_dim) out[row + d] = T(length > 0 ? o[i] / l * V_SCALE(kv_head) : 0.f);
  }
}

extern "C" void solve(const T* q, const KV* k_cache, const KV* v_cache, SCALES const int* block_table,
                      const int* context_lens, T* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                      int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  const dim3 grid(num_kv_heads, num_seqs), block(32, num_heads / num_kv_heads);
  decode<<<grid, block>>>(q, k_cache, v_cache, PASS_SCALES block_table, context_lens, out, num_heads, num_kv_heads,
                          head_dim, page_size, max_blocks_per_seq, scale);
}
