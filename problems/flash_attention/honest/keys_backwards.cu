// One pass from the last key to the first; the scale, with log2(e), goes into q, and weights are powers of 2.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

// A warp for each query row, one pass over the keys; a lane holds every 32nd dimension.
__global__ void attend(const T* q, const T* k, const T* v, T* out, int n, int head_dim, float scale, int causal) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t head = size_t(blockIdx.y) * n * head_dim;
  const int end = causal ? row + 1 : n;
  float m = -INFINITY, l = 0.f, o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int key = end - 1; key >= 0; --key) {
    float s = 0.f;
    for (int d = lane; d < head_dim; d += 32) {
      s += float(q[head + row * head_dim + d]) * scale * 1.44269504f * float(k[head + key * head_dim + d]);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) s += __shfl_xor_sync(0xffffffffu, s, lanes);
    const float top = fmaxf(m, s), correction = exp2f(m - top), p = exp2f(s - top);
    l = l * correction + p;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int d = lane + 32 * i;
      if (d < head_dim) o[i] = o[i] * correction + p * float(v[head + key * head_dim + d]);
    }
    m = top;
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
