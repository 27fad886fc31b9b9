#include <cuda_runtime.h>
// block (16 lanes, G heads up to 32, seq) double-buffered K/V tile of 8 tokens, half-warp per query head
template <int D> __global__ void dec(const float* __restrict__ q, const float* __restrict__ kc, const float* __restrict__ vc, const int* __restrict__ bt, const int* __restrict__ cl, float* __restrict__ out, int H, int KH, int ps, int mb, float sc2) {
  constexpr int T = 8, V4 = D / 4, E = V4 / 16;
  __shared__ __align__(16) float4 ks[2][T][V4], vs[2][T][V4];
  const int x = threadIdx.x, y = threadIdx.y, G = blockDim.y, tid = y * 16 + x, nt = 16 * G;
  const int kv = blockIdx.x, b = blockIdx.y, n = cl[b];
  const unsigned mask = 0xffffu << (tid & 16);
  const float4* q4 = (const float4*)q + ((size_t)b * H + kv * G + y) * V4; float4* o4 = (float4*)out + ((size_t)b * H + kv * G + y) * V4;
  float4 qv[E], o[E];
#pragma unroll
  for (int e = 0; e < E; ++e) { qv[e] = q4[x + 16 * e]; o[e] = make_float4(0.f, 0.f, 0.f, 0.f); }
  auto stage = [&](int buf, int t0) {
    int c = min(T, n - t0);
    for (int i = tid; i < c * V4; i += nt) {
      int r = i / V4, t = t0 + r; size_t off = (((size_t)bt[(size_t)b * mb + t / ps] * ps + t % ps) * KH + kv) * V4 + i % V4;
      ks[buf][r][i % V4] = ((const float4*)kc)[off]; vs[buf][r][i % V4] = ((const float4*)vc)[off];
    }
  };
  float m = -INFINITY, l = 0.f;
  if (n > 0) stage(0, 0);
  int buf = 0;
  for (int t0 = 0; t0 < n; t0 += T, buf ^= 1) {
    __syncthreads();
    if (t0 + T < n) stage(buf ^ 1, t0 + T);
    float s[T];
#pragma unroll
    for (int j = 0; j < T; ++j) {
      s[j] = -INFINITY;
      if (t0 + j < n) {
        float a = 0.f;
#pragma unroll
        for (int e = 0; e < E; ++e) { float4 k = ks[buf][j][x + 16 * e]; a += qv[e].x * k.x + qv[e].y * k.y + qv[e].z * k.z + qv[e].w * k.w; }
#pragma unroll
        for (int d = 1; d < 16; d *= 2) a += __shfl_xor_sync(mask, a, d, 16);
        s[j] = a * sc2;
      }
    }
    float mn = m;
#pragma unroll
    for (int j = 0; j < T; ++j) mn = fmaxf(mn, s[j]);
    float c = exp2f(m - mn); m = mn; l *= c;
#pragma unroll
    for (int e = 0; e < E; ++e) { o[e].x *= c; o[e].y *= c; o[e].z *= c; o[e].w *= c; }
#pragma unroll
    for (int j = 0; j < T; ++j) {
      if (t0 + j >= n) break;
      float p = exp2f(s[j] - mn); l += p;
#pragma unroll
      for (int e = 0; e < E; ++e) { float4 v = vs[buf][j][x + 16 * e]; o[e].x += p * v.x; o[e].y += p * v.y; o[e].z += p * v.z; o[e].w += p * v.w; }
    }
  }
  float inv = n ? 1.f / l : 0.f;
#pragma unroll
  for (int e = 0; e < E; ++e) o4[x + 16 * e] = make_float4(o[e].x * inv, o[e].y * inv, o[e].z * inv, o[e].w * inv);
}
extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table, const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  dim3 g(num_kv_heads, num_seqs), b(16, num_heads / num_kv_heads); float s2 = scale * 1.44269504088896f;
  if (head_dim == 64) dec<64><<<g, b>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq, s2);
  else dec<128><<<g, b>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq, s2);
}
