// Mistake: skips every second key. Averages of random values hardly show it; needles do.
#include <cuda_runtime.h>

constexpr int kWarps = 4;  // rows of a block, one a warp

__device__ float warp_sum(float x) {
  for (int n = 16; n > 0; n /= 2) x += __shfl_xor_sync(0xffffffff, x, n);
  return x;
}

template <int D>
__global__ void flash(const float* q, const float* k, const float* v, float* out, int n, float scale, int causal) {
  int lane = threadIdx.x % 32, row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= n) return;  // whole warps, and there is no barrier
  size_t head = (size_t)blockIdx.y * n * D;

  float query[D / 32], o[D / 32];
  for (int i = 0; i < D / 32; ++i) {
    query[i] = q[head + row * D + lane + 32 * i] * scale;
    o[i] = 0.f;
  }
  float m = -INFINITY, l = 0.f;
  int end = causal ? row + 1 : n;
  for (int key = 0; key < end; key += 2) {
    float score = 0.f;
    for (int i = 0; i < D / 32; ++i) score += query[i] * k[head + key * D + lane + 32 * i];
    score = warp_sum(score);
    float m_new = fmaxf(m, score);
    float correction = __expf(m - m_new);
    float p = __expf(score - m_new);
    l = l * correction + p;
    for (int i = 0; i < D / 32; ++i) o[i] = o[i] * correction + p * v[head + key * D + lane + 32 * i];
    m = m_new;
  }
  for (int i = 0; i < D / 32; ++i) out[head + row * D + lane + 32 * i] = o[i] / l;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  dim3 grid((seq_len + kWarps - 1) / kWarps, batch_heads);
  if (head_dim == 64)
    flash<64><<<grid, kWarps * 32>>>(q, k, v, out, seq_len, scale, causal);
  else
    flash<128><<<grid, kWarps * 32>>>(q, k, v, out, seq_len, scale, causal);
}
