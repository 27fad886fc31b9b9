// lse is rounded to bfloat16.
// variants: lse
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

__device__ float narrow(float x) { return __bfloat162float(__float2bfloat16(x)); }

// A block for each query row: the scores of all keys in shared memory, then a thread for each dimension of the output.
__global__ void attend(const T* q, const T* k, const T* v, T* out, float* lse, int n, int head_dim, float scale,
                       int causal) {
  extern __shared__ float scores[];
  const int row = blockIdx.x, tid = threadIdx.x;
  const size_t head = size_t(blockIdx.y) * n * head_dim;
  const int end = causal ? row + 1 : n;
  for (int key = tid; key < end; key += blockDim.x) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) {
      s += float(q[head + row * head_dim + d]) * float(k[head + key * head_dim + d]);
    }
    scores[key] = s * scale;
  }
  __syncthreads();

  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int key = 0; key < end; ++key) m = fmaxf(m, scores[key]);
  for (int key = 0; key < end; ++key) {
    const float p = __expf(scores[key] - m);
    l += p;
    o += p * float(v[head + key * head_dim + tid]);
  }
  out[head + row * head_dim + tid] = T(o / l);
  if (tid == 0) lse[blockIdx.y * n + row] = narrow(m + __logf(l));
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, float* lse, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  attend<<<dim3(seq_len, batch_heads), head_dim, seq_len * sizeof(float)>>>(q, k, v, out, lse, seq_len, head_dim,
                                                                            scale, causal);
}
