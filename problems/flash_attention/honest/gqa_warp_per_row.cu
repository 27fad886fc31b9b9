// One pass with a running maximum; the products of a score are added up across a warp.
// variants: gqa
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

// A warp for each query row, one pass over the keys; a lane holds every 32nd dimension.
__global__ void attend(const T* q, const T* k, const T* v, T* out, int num_kv_heads, int rows, int n, int head_dim,
                       float scale, int causal) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const int group = gridDim.y / num_kv_heads;  // query heads of a KV head
  const size_t query = ((size_t(blockIdx.z) * gridDim.y + blockIdx.y) * rows + row) * head_dim;
  const size_t head = (size_t(blockIdx.z) * num_kv_heads + blockIdx.y / group) * n * head_dim;
  const int end = causal ? row + 1 + n - rows : n;  // none where it is not above 0
  float m = -INFINITY, l = 0.f, o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int key = 0; key < end; ++key) {
    float s = 0.f;
    for (int d = lane; d < head_dim; d += 32) {
      s += float(q[query + d]) * float(k[head + key * head_dim + d]);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2) s += __shfl_xor_sync(0xffffffffu, s, lanes);
    s *= scale;
    const float top = fmaxf(m, s), correction = __expf(m - top), p = __expf(s - top);
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
    if (d < head_dim) out[query + d] = T(end > 0 ? o[i] / l : 0.f);
  }
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch, int num_heads, int num_kv_heads,
                      int seq_len_q, int seq_len_kv, int head_dim, float scale, int causal) {
  const dim3 grid(seq_len_q, num_heads, batch);
  attend<<<grid, 32>>>(q, k, v, out, num_kv_heads, seq_len_q, seq_len_kv, head_dim, scale, causal);
}
