#include <cuda_runtime.h>
#include <climits>
// split-K, last block merges; block of 24x4 threads? 96; group of query heads per kv head processed in loop
constexpr int PART = 96;
template <int D> __global__ void dec(const float* q, const float* kc, const float* vc, const int* bt, const int* cl, float* out, int H, int KH, int ps, int mb, float sc, float2* ml, float* po, unsigned* tick) {
  extern __shared__ float sh[]; // scores[PART], red[4], qs[D]
  float* scores = sh; float* red = sh + PART; float* qs = red + 4;
  int h = blockIdx.x, b = blockIdx.y, part = blockIdx.z, n = cl[b], parts = (n + PART - 1) / PART, t = threadIdx.x;
  size_t qo = ((size_t)b * H + h) * D; int G = H / KH, g = h / G;
  if (n == 0) { if (part == 0) for (int d = t; d < D; d += 96) out[qo + d] = 0; return; }
  if (part >= parts) return;
  for (int d = t; d < D; d += 96) qs[d] = q[qo + d];
  __syncthreads();
  int tok = part * PART + t; bool ok = tok < n; float s = -INFINITY;
  if (ok) {
    const float4* k = (const float4*)(kc + (((size_t)bt[(size_t)b * mb + tok / ps] * ps + tok % ps) * KH + g) * D); const float4* q4 = (const float4*)qs;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma unroll 8
    for (int i = 0; i < D / 4; ++i) { float4 a = k[i], c = q4[i]; s0 += a.x * c.x; s1 += a.y * c.y; s2 += a.z * c.z; s3 += a.w * c.w; }
    s = ((s0 + s1) + (s2 + s3)) * sc;
  }
  float m = s; for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
  if (t % 32 == 0) red[t / 32] = m; __syncthreads();
  m = fmaxf(red[0], fmaxf(red[1], red[2])); __syncthreads();
  float p = ok ? __expf(s - m) : 0; scores[t] = p;
  float l = p; for (int o = 16; o; o >>= 1) l += __shfl_xor_sync(0xffffffffu, l, o);
  if (t % 32 == 0) red[t / 32] = l; __syncthreads();
  l = red[0] + red[1] + red[2];
  int cnt = min(PART, n - part * PART);
  size_t idx = ((size_t)b * H + h) * gridDim.z + part;
  for (int d = t; d < D; d += 96) {
    float acc = 0;
    for (int j = 0; j < cnt; ++j) { int tk = part * PART + j; acc += scores[j] * vc[(((size_t)bt[(size_t)b * mb + tk / ps] * ps + tk % ps) * KH + g) * D + d]; }
    po[idx * D + d] = acc;
  }
  if (t == 0) ml[idx] = make_float2(m, l);
  __threadfence();
  __shared__ bool last;
  __syncthreads();
  if (t == 0) last = atomicAdd(&tick[b * H + h], 1u) == parts - 1u;
  __syncthreads();
  if (!last) return;
  __threadfence();
  size_t first = idx - part; float M = -INFINITY;
  for (int i = 0; i < parts; ++i) M = fmaxf(M, ml[first + i].x);
  for (int d = t; d < D; d += 96) { float L = 0, a = 0; for (int i = 0; i < parts; ++i) { float2 x = ml[first + i]; float f = __expf(x.x - M); L = fmaf(f, x.y, L); a = fmaf(f, po[(first + i) * D + d], a); } out[qo + d] = a / L; }
}
extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table, const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale) {
  int parts = (max_context_len + PART - 1) / PART; if (parts < 1) parts = 1;
  float2* ml; float* po; unsigned* tk; size_t n = (size_t)num_seqs * num_heads;
  cudaMalloc(&ml, n * parts * sizeof(float2)); cudaMalloc(&po, n * parts * head_dim * sizeof(float)); cudaMalloc(&tk, n * 4); cudaMemset(tk, 0, n * 4);
  dim3 g(num_heads, num_seqs, parts); size_t sm = (PART + 4 + head_dim) * sizeof(float);
  if (head_dim == 64) dec<64><<<g, 96, sm>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq, scale, ml, po, tk);
  else dec<128><<<g, 96, sm>>>(q, k_cache, v_cache, block_table, context_lens, out, num_heads, num_kv_heads, page_size, max_blocks_per_seq, scale, ml, po, tk);
  cudaFree(ml); cudaFree(po); cudaFree(tk);
}
