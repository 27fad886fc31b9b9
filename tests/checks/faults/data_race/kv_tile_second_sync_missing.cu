// Fault: no __syncthreads() at the end of a K/V tile: a fast warp loads the next tile over the one that others still
// read. Scores and values of two tiles get mixed.
// n = 96
#include <cuda_runtime.h>

constexpr int kDim = 32, kRows = 64, kTile = 16;

// A thread for each query row.
__global__ void flash(const float* q, const float* k, const float* v, float* out, int n, float scale) {
  __shared__ float k_tile[kTile][kDim], v_tile[kTile][kDim];
  const int row = blockIdx.x * kRows + threadIdx.x;
  float query[kDim], acc[kDim], m = -INFINITY, l = 0.f;
  for (int d = 0; d < kDim; ++d) {
    query[d] = row < n ? q[row * kDim + d] * scale : 0.f;
    acc[d] = 0.f;
  }
  for (int first = 0; first < n; first += kTile) {
    for (int i = threadIdx.x; i < kTile * kDim; i += kRows) {
      const int j = i / kDim, d = i % kDim, key = first + j;
      k_tile[j][d] = key < n ? k[key * kDim + d] : 0.f;  // expect: data_race
      v_tile[j][d] = key < n ? v[key * kDim + d] : 0.f;  // expect: data_race
    }
    __syncthreads();
    for (int j = 0; j < min(kTile, n - first); ++j) {
      float s = 0.f;
      for (int d = 0; d < kDim; ++d) s += query[d] * k_tile[j][d];  // other
      const float m_new = fmaxf(m, s), correction = expf(m - m_new), p = expf(s - m_new);
      l = l * correction + p;
      for (int d = 0; d < kDim; ++d) acc[d] = acc[d] * correction + p * v_tile[j][d];  // other
      m = m_new;
    }
  }
  if (row < n)
    for (int d = 0; d < kDim; ++d) out[row * kDim + d] = acc[d] / l;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  flash<<<(n + kRows - 1) / kRows, kRows>>>(q, k, v, out, n, 0.1767767f);
}
