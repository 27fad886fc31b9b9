// A thread for each row, keys by tiles of 16; the sums of a tile are added to the output at once.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

constexpr int kRows = 32;   // of a block: a thread for each
constexpr int kKeys = 16;   // of a tile in shared memory
constexpr int kMost = 128;  // dimensions of a head

// A thread for each query row, tiles of keys and values in shared memory; a tile is rescaled once.
__global__ void attend(const T* q, const T* k, const T* v, T* out, int n, int head_dim, float scale, int causal) {
  __shared__ float keys[kKeys][kMost], values[kKeys][kMost];
  const int row = blockIdx.x * kRows + threadIdx.x;
  const size_t head = size_t(blockIdx.y) * n * head_dim;
  float query[kMost], o[kMost], m = -INFINITY, l = 0.f;
  for (int d = 0; d < head_dim; ++d) {
    query[d] = row < n ? float(q[head + row * head_dim + d]) * scale : 0.f;
    o[d] = 0.f;
  }
  const int end = causal ? min(n, (blockIdx.x + 1) * kRows) : n;
  for (int first = 0; first < end; first += kKeys) {
    __syncthreads();  // all have used the tile before
    for (int i = threadIdx.x; i < kKeys * head_dim; i += kRows) {
      const int key = first + i / head_dim, d = i % head_dim;
      keys[i / head_dim][d] = key < n ? float(k[head + key * head_dim + d]) : 0.f;
      values[i / head_dim][d] = key < n ? float(v[head + key * head_dim + d]) : 0.f;
    }
    __syncthreads();  // the tile is complete
    float scores[kKeys], top = m;
    for (int j = 0; j < kKeys; ++j) {
      scores[j] = 0.f;
      for (int d = 0; d < head_dim; ++d) scores[j] += query[d] * keys[j][d];
      if (first + j >= n || (causal && first + j > row)) scores[j] = -INFINITY;
      top = fmaxf(top, scores[j]);
    }
    const float correction = __expf(m - top);  // finite: the first tile has a visible key for every row
    m = top;
    l *= correction;
    for (int j = 0; j < kKeys; ++j) l += scores[j] = __expf(scores[j] - m);
    for (int d = 0; d < head_dim; ++d) {
      float sum = 0.f;
      for (int j = 0; j < kKeys; ++j) sum += scores[j] * values[j][d];
      o[d] = o[d] * correction + sum;
    }
  }
  if (row < n) {
    for (int d = 0; d < head_dim; ++d) out[head + row * head_dim + d] = T(o[d] / l);
  }
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch_heads, int seq_len, int head_dim,
                      float scale, int causal) {
  const dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  attend<<<grid, kRows>>>(q, k, v, out, seq_len, head_dim, scale, causal);
}
