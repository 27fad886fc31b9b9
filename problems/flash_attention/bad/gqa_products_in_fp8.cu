// Keys and values are rounded to fp8 (e4m3).
// variants: gqa
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

__device__ float narrow(float x) { return float(__nv_fp8_e4m3(x)); }

// A block for each query row: the scores of all keys in shared memory, then a thread for each dimension of the output.
__global__ void attend(const T* q, const T* k, const T* v, T* out, int num_kv_heads, int rows, int n, int head_dim,
                       float scale, int causal) {
  extern __shared__ float scores[];
  const int row = blockIdx.x, tid = threadIdx.x;
  const int group = gridDim.y / num_kv_heads;  // query heads of a KV head
  const size_t query = ((size_t(blockIdx.z) * gridDim.y + blockIdx.y) * rows + row) * head_dim;
  const size_t head = (size_t(blockIdx.z) * num_kv_heads + blockIdx.y / group) * n * head_dim;
  const int end = causal ? row + 1 + n - rows : n;  // none where it is not above 0
  for (int key = tid; key < end; key += blockDim.x) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) {
      s += float(q[query + d]) * narrow(float(k[head + key * head_dim + d]));
    }
    scores[key] = s * scale;
  }
  __syncthreads();

  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int key = 0; key < end; ++key) m = fmaxf(m, scores[key]);
  for (int key = 0; key < end; ++key) {
    const float p = __expf(scores[key] - m);
    l += p;
    o += p * narrow(float(v[head + key * head_dim + tid]));
  }
  out[query + tid] = T(end > 0 ? o / l : 0.f);
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch, int num_heads, int num_kv_heads,
                      int seq_len_q, int seq_len_kv, int head_dim, float scale, int causal) {
  const dim3 grid(seq_len_q, num_heads, batch);
  attend<<<grid, head_dim, seq_len_kv * sizeof(float)>>>(q, k, v, out, num_kv_heads, seq_len_q, seq_len_kv, head_dim,
                                                         scale, causal);
}
