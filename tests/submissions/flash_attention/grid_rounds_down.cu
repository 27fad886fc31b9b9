// Mistake: seq_len / kRows blocks: the last, incomplete tile of rows is never computed.
#include <cuda_runtime.h>

constexpr int kRows = 64;  // query rows of a block, one a thread
constexpr int kKeys = 16;  // keys of a tile

template <int D>
__global__ void flash(const float* q, const float* k, const float* v, float* out, int n, float scale, int causal) {
  __shared__ float k_tile[kKeys][D];
  __shared__ float v_tile[kKeys][D];
  int row = blockIdx.x * kRows + threadIdx.x;
  size_t head = (size_t)blockIdx.y * n * D;

  float query[D], o[D];
  for (int d = 0; d < D; ++d) {
    query[d] = row < n ? q[head + row * D + d] * scale : 0.f;
    o[d] = 0.f;
  }
  float m = -INFINITY, l = 0.f;
  for (int first = 0; first < n; first += kKeys) {
    for (int i = threadIdx.x; i < kKeys * D; i += kRows) {
      bool inside = first + i / D < n;
      k_tile[i / D][i % D] = inside ? k[head + first * D + i] : 0.f;
      v_tile[i / D][i % D] = inside ? v[head + first * D + i] : 0.f;
    }
    __syncthreads();  // the tile is complete
    for (int j = 0; j < kKeys; ++j) {
      int key = first + j;
      float score = 0.f;
      for (int d = 0; d < D; ++d) score += query[d] * k_tile[j][d];
      if (key >= n || (causal && key > row)) score = -INFINITY;

      float m_new = fmaxf(m, score);
      float correction = __expf(m - m_new);
      float p = __expf(score - m_new);
      l = l * correction + p;
      for (int d = 0; d < D; ++d) o[d] = o[d] * correction + p * v_tile[j][d];
      m = m_new;
    }
    __syncthreads();  // all have used the tile
  }
  if (row < n)
    for (int d = 0; d < D; ++d) out[head + row * D + d] = o[d] / l;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  dim3 grid(seq_len / kRows, batch_heads);
  if (head_dim == 64)
    flash<64><<<grid, kRows>>>(q, k, v, out, seq_len, scale, causal);
  else
    flash<128><<<grid, kRows>>>(q, k, v, out, seq_len, scale, causal);
}
