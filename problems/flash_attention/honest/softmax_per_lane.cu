// Each lane has a softmax of its own over every 32nd key, and the 32 are merged at the end.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

// A warp for each query row; each lane has a softmax of its own over every 32nd key, and the 32 are merged at the end.
template <int D>
__global__ void attend(const T* q, const T* k, const T* v, T* out, int n, float scale, int causal) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const size_t head = size_t(blockIdx.y) * n * D;
  const int end = causal ? row + 1 : n;
  float m = -INFINITY, l = 0.f, o[D];
  for (int d = 0; d < D; ++d) o[d] = 0.f;
  for (int key = lane; key < end; key += 32) {
    float even = 0.f, odd = 0.f;
    for (int d = 0; d < D; d += 2) {
      even += float(q[head + row * D + d]) * float(k[head + key * D + d]);
      odd += float(q[head + row * D + d + 1]) * float(k[head + key * D + d + 1]);
    }
    const float s = (even + odd) * scale, top = fmaxf(m, s), correction = __expf(m - top), p = __expf(s - top);
    l = l * correction + p;
    for (int d = 0; d < D; ++d) o[d] = o[d] * correction + p * float(v[head + key * D + d]);
    m = top;
  }
  float top = m;
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
  const float weight = __expf(m - top);  // 0 for a lane without a key
  float sum = l * weight;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  for (int d = 0; d < D; ++d) {
    float total = o[d] * weight;
    for (int lanes = 16; lanes > 0; lanes /= 2) total += __shfl_xor_sync(0xffffffffu, total, lanes);
    if (lane == d % 32) out[head + row * D + d] = T(total / sum);
  }
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch_heads, int seq_len, int head_dim,
                      float scale, int causal) {
  const dim3 grid(seq_len, batch_heads);
  if (head_dim == 64)
    attend<64><<<grid, 32>>>(q, k, v, out, seq_len, scale, causal);
  else
    attend<128><<<grid, 32>>>(q, k, v, out, seq_len, scale, causal);
}
