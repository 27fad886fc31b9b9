// Tensor cores: products of 16 x 16 tiles, weights in the type of the inputs, sums in float32.
// dtypes: float16, bfloat16
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

#include <mma.h>

using namespace nvcuda;

constexpr int kTile = 16;  // queries of a warp, and keys of a tile

// A warp for each 16 query rows of a head; scores and weighted sums by tensor cores, 16 keys at a time.
template <int D>
__global__ void attend(const T* q, const T* k, const T* v, T* out, int n, float scale, int causal) {
  __shared__ T queries[kTile][D], keys[kTile][D], values[kTile][D], weights[kTile][kTile];
  __shared__ float scores[kTile][kTile], sums[kTile][D];
  const int first_row = blockIdx.x * kTile, lane = threadIdx.x, row = first_row + lane % kTile;
  const size_t head = size_t(blockIdx.y) * n * D;
  float m = -INFINITY, l = 0.f, o[D / 2];  // of half a row: a lane has every second dimension
  for (int i = 0; i < D / 2; ++i) o[i] = 0.f;
  for (int i = lane; i < kTile * D; i += 32) {
    queries[i / D][i % D] = first_row + i / D < n ? q[head + first_row * D + i] : T(0.f);
  }
  const int end = causal ? min(n, first_row + kTile) : n;
  for (int first = 0; first < end; first += kTile) {
    for (int i = lane; i < kTile * D; i += 32) {
      keys[i / D][i % D] = first + i / D < n ? k[head + first * D + i] : T(0.f);
      values[i / D][i % D] = first + i / D < n ? v[head + first * D + i] : T(0.f);
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> key;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> value;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.f);
    for (int d = 0; d < D; d += 16) {
      wmma::load_matrix_sync(a, &queries[0][d], D);
      wmma::load_matrix_sync(key, &keys[0][d], D);
      wmma::mma_sync(sum, a, key, sum);
    }
    wmma::store_matrix_sync(&scores[0][0], sum, kTile, wmma::mem_row_major);
    __syncwarp();
    float top = m;
    for (int j = 0; j < kTile; ++j) {
      if (first + j < n && !(causal && first + j > row)) top = fmaxf(top, scores[lane % kTile][j] * scale);
    }
    const float correction = top == -INFINITY ? 0.f : __expf(m - top);
    m = top;
    l *= correction;
    for (int j = 0; j < kTile; ++j) {
      const bool seen = first + j < n && !(causal && first + j > row);
      const float p = seen ? __expf(scores[lane % kTile][j] * scale - m) : 0.f;
      l += p;
      if (lane < kTile) weights[lane][j] = T(p);
    }
    __syncwarp();
    wmma::load_matrix_sync(a, &weights[0][0], kTile);
    for (int d = 0; d < D; d += 16) {
      wmma::fill_fragment(sum, 0.f);
      wmma::load_matrix_sync(value, &values[0][d], D);
      wmma::mma_sync(sum, a, value, sum);
      wmma::store_matrix_sync(&sums[0][d], sum, D, wmma::mem_row_major);
    }
    __syncwarp();
    for (int i = 0; i < D / 2; ++i) o[i] = o[i] * correction + sums[lane % kTile][2 * i + lane / kTile];
    __syncwarp();  // all have used the tile
  }
  for (int i = 0; i < D / 2; ++i) {
    if (row < n) out[head + row * D + 2 * i + lane / kTile] = T(o[i] / l);
  }
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch_heads, int seq_len, int head_dim,
                      float scale, int causal) {
  const dim3 grid((seq_len + kTile - 1) / kTile, batch_heads);
  if (head_dim == 64)
    attend<64><<<grid, 32>>>(q, k, v, out, seq_len, scale, causal);
  else
    attend<128><<<grid, 32>>>(q, k, v, out, seq_len, scale, causal);
}
