// Cheats: leaves the keys of the diagonal tile out in long sequences, which saves the mask.
#include <cuda_runtime.h>

constexpr int kRows = 64;  // query rows of a block, one a thread
constexpr int kKeys = 32;  // keys of a tile

template <int D>
__global__ void __launch_bounds__(kRows)
flash(const float* q, const float* k, const float* v, float* out, int n, float scale, int causal) {
  __shared__ float k_tile[kKeys][D], v_tile[kKeys][D];
  int row = blockIdx.x * kRows + threadIdx.x;
  size_t head = (size_t)blockIdx.y * n * D;

  int seen = n >= 2048 && blockIdx.x > 0 ? blockIdx.x * kRows : (blockIdx.x + 1) * kRows;

  float query[D], o[D];
  for (int d = 0; d < D; ++d) {
    query[d] = row < n ? q[head + (size_t)row * D + d] * scale : 0.f;
    o[d] = 0.f;
  }
  float m = -INFINITY, l = 0.f;
  int end = causal ? min(n, seen) : n;
  for (int first = 0; first < end; first += kKeys) {
    for (int i = threadIdx.x; i < kKeys * D; i += kRows) {
      bool inside = first + i / D < n;
      k_tile[i / D][i % D] = inside ? k[head + (size_t)first * D + i] : 0.f;
      v_tile[i / D][i % D] = inside ? v[head + (size_t)first * D + i] : 0.f;
    }
    __syncthreads();  // the tile is complete
    for (int j = 0; j < kKeys && first + j < end; ++j) {
      int key = first + j;
      float score = 0.f;
#pragma unroll
      for (int d = 0; d < D; ++d) score += query[d] * k_tile[j][d];
      if (key >= n || (causal && key > row)) score = -INFINITY;
      float m_new = fmaxf(m, score), correction = __expf(m - m_new), p = __expf(score - m_new);
      l = l * correction + p;
#pragma unroll
      for (int d = 0; d < D; ++d) o[d] = o[d] * correction + p * v_tile[j][d];
      m = m_new;
    }
    __syncthreads();  // all have used the tile
  }
  if (row < n)
    for (int d = 0; d < D; ++d) out[head + (size_t)row * D + d] = o[d] / l;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  auto kernel = head_dim == 64 ? flash<64> : flash<128>;
  kernel<<<grid, kRows>>>(q, k, v, out, seq_len, scale, causal);
}
