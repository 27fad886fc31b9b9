#include <cuda_runtime.h>
// warp 0 produces K/V tiles into a ring of 2; warps 1..4 consume, one warp per 4 rows.
#define BAR_SYNC(id, n) asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(n) : "memory")
#define BAR_ARRIVE(id, n) asm volatile("bar.arrive %0, %1;" :: "r"(id), "n"(n) : "memory")
enum { FULL = 1, EMPTY = 3 };
template <int D> struct Ring { float k[2][16][D + 1]; float v[2][16][D]; float q[16][D]; };
template <int D>
__global__ void __launch_bounds__(160) fa(const float* Q, const float* K, const float* V, float* O, int N, float scale, int causal) {
  extern __shared__ float raw[];
  Ring<D>& s = *(Ring<D>*)raw;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, r0 = blockIdx.x * 16;
  const size_t base = (size_t)blockIdx.y * N * D;
  const int kend = causal ? min(N, r0 + 16) : N, tiles = (kend + 15) / 16;
  if (warp == 0) {
    for (int t = 0; t < tiles; ++t) {
      int b = t & 1;
      if (t >= 2) BAR_SYNC(EMPTY + b, 160);
      for (int i = lane; i < 16 * D; i += 32) { int r = i / D, d = i % D; size_t g = base + (size_t)(t * 16 + r) * D + d; bool ok = t * 16 + r < N; s.k[b][r][d] = ok ? K[g] : 0.f; s.v[b][r][d] = ok ? V[g] : 0.f; }
      __threadfence_block();
      BAR_ARRIVE(FULL + b, 160);
    }
  } else {
    const int w = warp - 1;
    float m[4], l[4], o[4][D / 32];
    for (int i = 0; i < 4; ++i) { m[i] = -INFINITY; l[i] = 0; for (int j = 0; j < D / 32; ++j) { o[i][j] = 0; int row = r0 + w * 4 + i; s.q[w * 4 + i][lane + 32 * j] = row < N ? Q[base + (size_t)row * D + lane + 32 * j] : 0.f; } }
    __syncwarp();
    for (int t = 0; t < tiles; ++t) {
      int b = t & 1;
      BAR_SYNC(FULL + b, 160);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // two halves of a warp share the dims of 16 keys
        int key = lane & 15, half = lane >> 4; float x = 0;
        for (int d = half * (D / 2); d < (half + 1) * (D / 2); ++d) x += s.q[w * 4 + i][d] * s.k[b][key][d];
        x += __shfl_xor_sync(0xffffffff, x, 16);
        x *= scale; int col = t * 16 + key, row = r0 + w * 4 + i;
        if (col >= N || (causal && col > row)) x = -INFINITY;
        float mx = x; for (int off = 8; off; off >>= 1) mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, off, 16));
        mx = fmaxf(mx, m[i]);
        float c = m[i] == mx ? 1.f : expf(m[i] - mx); float p = x == -INFINITY ? 0.f : expf(x - mx);
        float sum = p; for (int off = 8; off; off >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, off, 16);
        l[i] = l[i] * c + sum; m[i] = mx;
        for (int j = 0; j < D / 32; ++j) { float a = o[i][j] * c; for (int kk = 0; kk < 16; ++kk) a += __shfl_sync(0xffffffff, p, kk) * s.v[b][kk][lane + 32 * j]; o[i][j] = a; }
      }
      if (t + 2 < tiles) BAR_ARRIVE(EMPTY + b, 160);
    }
    for (int i = 0; i < 4; ++i) { int row = r0 + w * 4 + i; if (row < N) for (int j = 0; j < D / 32; ++j) O[base + (size_t)row * D + lane + 32 * j] = o[i][j] / l[i]; }
  }
}
extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len, int head_dim, float scale, int causal) {
  dim3 g((seq_len + 15) / 16, batch_heads);
  if (head_dim == 64) { cudaFuncSetAttribute(fa<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Ring<64>)); fa<64><<<g, 160, sizeof(Ring<64>)>>>(q, k, v, out, seq_len, scale, causal); }
  else { cudaFuncSetAttribute(fa<128>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)sizeof(Ring<128>)); fa<128><<<g, 160, sizeof(Ring<128>)>>>(q, k, v, out, seq_len, scale, causal); }
}
