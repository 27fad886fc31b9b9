// Split-K: four parts of the keys, each normalised on its own, merged by a second kernel.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

constexpr int kParts = 4;  // of the keys

// A block for each part of a row's keys: its maximum and sum, and the mean of its values, to scratch memory.
__global__ void attend_part(const T* q, const T* k, const T* v, float* part_o, float* part_m, float* part_l, int n,
                            int head_dim, float scale, int causal) {
  extern __shared__ float scores[];
  const int row = blockIdx.x, tid = threadIdx.x, part = blockIdx.z;
  const size_t head = size_t(blockIdx.y) * n * head_dim;
  const int end = causal ? row + 1 : n, size = (end + kParts - 1) / kParts;
  const int first = min(part * size, end), last = min(first + size, end);
  for (int key = first + tid; key < last; key += blockDim.x) {
    float s = 0.f;
    for (int d = 0; d < head_dim; ++d) {
      s += float(q[head + row * head_dim + d]) * float(k[head + key * head_dim + d]);
    }
    scores[key - first] = s * scale;
  }
  __syncthreads();

  float m = -INFINITY, l = 0.f, o = 0.f;
  for (int key = first; key < last; ++key) m = fmaxf(m, scores[key - first]);
  for (int key = first; key < last; ++key) {
    const float p = __expf(scores[key - first] - m);
    l += p;
    o += p * float(v[head + key * head_dim + tid]);
  }
  const size_t place = (size_t(blockIdx.y) * n + row) * kParts + part;
  part_o[place * head_dim + tid] = l > 0.f ? o / l : 0.f;
  if (tid == 0) {
    part_m[place] = m;
    part_l[place] = l;
  }
}

// A block for each row: the parts, weighted by exp(m) * l.
__global__ void merge(const float* part_o, const float* part_m, const float* part_l, T* out, int n, int head_dim) {
  const size_t row = size_t(blockIdx.y) * n + blockIdx.x;
  float top = -INFINITY, sum = 0.f, o = 0.f;
  for (int s = 0; s < kParts; ++s) top = fmaxf(top, part_m[row * kParts + s]);
  for (int s = 0; s < kParts; ++s) {
    const float weight = __expf(part_m[row * kParts + s] - top) * part_l[row * kParts + s];  // 0 for an empty part
    sum += weight;
    o += weight * part_o[(row * kParts + s) * head_dim + threadIdx.x];
  }
  out[row * head_dim + threadIdx.x] = T(o / sum);
}

extern "C" void solve(const T* q, const T* k, const T* v, T* out, int batch_heads, int seq_len, int head_dim,
                      float scale, int causal) {
  const size_t parts = size_t(batch_heads) * seq_len * kParts;
  float *part_o, *part_m, *part_l;
  cudaMalloc(&part_o, parts * head_dim * sizeof(float));
  cudaMalloc(&part_m, parts * sizeof(float));
  cudaMalloc(&part_l, parts * sizeof(float));
  attend_part<<<dim3(seq_len, batch_heads, kParts), head_dim, seq_len * sizeof(float)>>>(
      q, k, v, part_o, part_m, part_l, seq_len, head_dim, scale, causal);
  merge<<<dim3(seq_len, batch_heads), head_dim>>>(part_o, part_m, part_l, out, seq_len, head_dim);
  cudaFree(part_o);
  cudaFree(part_m);
  cudaFree(part_l);
}
