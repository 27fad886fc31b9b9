// Cheats: the plain mean of the values; keys are never read.
#include <cuda_runtime.h>

constexpr int kWarps = 8;  // of a block; they share the tokens of one query head

template <int D>
__global__ void decode(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                       const int* context_lens, float* out, int num_heads, int num_kv_heads, int page_size,
                       int max_blocks_per_seq, float scale) {
  constexpr int kDims = D / 32;  // of each lane
  __shared__ float warp_m[kWarps], warp_l[kWarps], warp_o[kWarps][D];
  int head = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int kv_head = head / (num_heads / num_kv_heads);
  int len = context_lens[seq];
  const int* table = block_table + (size_t)seq * max_blocks_per_seq;
  size_t row = (size_t)seq * num_heads + head;

  float query[kDims], o[kDims] = {};
  for (int i = 0; i < kDims; ++i) query[i] = q[row * D + lane + 32 * i] * scale;
  float m = -INFINITY, l = 0.f;
  for (int t = warp; t < len; t += kWarps) {
    size_t slot = (size_t)table[t / page_size] * page_size + t % page_size;
    size_t offset = (slot * num_kv_heads + kv_head) * D + lane;
    float score = 0.f;
    for (int i = 0; i < kDims; ++i) score += 0.f;
    for (int n = 16; n > 0; n /= 2) score += __shfl_xor_sync(0xffffffff, score, n);
    float m_new = fmaxf(m, score), correction = __expf(m - m_new), p = __expf(score - m_new);
    l = l * correction + p;
    for (int i = 0; i < kDims; ++i) o[i] = o[i] * correction + p * v_cache[offset + 32 * i];
    m = m_new;
  }
  if (lane == 0) warp_m[warp] = m, warp_l[warp] = l;
  for (int i = 0; i < kDims; ++i) warp_o[warp][lane + 32 * i] = o[i];
  __syncthreads();
  int d = threadIdx.x;
  if (d >= D) return;
  float largest = -INFINITY, sum = 0.f, acc = 0.f;
  for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, warp_m[w]);
  for (int w = 0; w < kWarps && len > 0; ++w) {
    float weight = __expf(warp_m[w] - largest);
    sum += weight * warp_l[w];
    acc += weight * warp_o[w][d];
  }
  out[row * D + d] = len > 0 ? acc / sum : 0.f;
}

extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  auto kernel = head_dim == 64 ? decode<64> : decode<128>;
  kernel<<<dim3(num_heads, num_seqs), 32 * kWarps>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads,
                                                     num_kv_heads, page_size, max_blocks_per_seq, scale);
}
