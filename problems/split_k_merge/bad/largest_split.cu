// The split of the largest weight alone.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

// A block for each row, a thread for each dimension: the largest m, then the weighted mean.
__global__ void merge(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  const int row = blockIdx.x, d = threadIdx.x;
  float top = -INFINITY, sum = 0.f, o = 0.f;
  for (int s = 0; s < num_splits; ++s) top = fmaxf(top, m[s * rows + row]);
  for (int s = 0; s < num_splits; ++s) {
    const int split = s * rows + row;
    if (l[split] == 0.f) continue;  // an empty split: its partial_out may hold anything
    const float weight = m[split] == top ? l[split] : 0.f;
    sum += weight;
    o += weight * float(partial_out[size_t(split) * head_dim + d]);
  }
  out[row * head_dim + d] = T(sum > 0.f ? o / sum : 0.f);
  if (d == 0) lse[row] = sum > 0.f ? top + logf(sum) : -INFINITY;
}

extern "C" void solve(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
