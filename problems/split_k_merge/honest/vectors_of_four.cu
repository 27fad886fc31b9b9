// Four neighbouring dimensions a thread, in one load; four rows a block.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

struct alignas(4 * sizeof(T)) Four {
  T x[4];
};

// A thread for four neighbouring dimensions of a row; eight bytes or more a load.
__global__ void merge(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y, d = 4 * threadIdx.x;
  if (row >= rows) return;
  float top = -INFINITY, sum = 0.f, o[4] = {0.f, 0.f, 0.f, 0.f};
  for (int s = 0; s < num_splits; ++s) {
    const int split = s * rows + row;
    if (m[split] == -INFINITY) continue;  // empty
    const Four part = *reinterpret_cast<const Four*>(partial_out + size_t(split) * head_dim + d);
    const float larger = fmaxf(top, m[split]), correction = __expf(top - larger);
    const float weight = __expf(m[split] - larger) * l[split];
    sum = sum * correction + weight;
#pragma unroll
    for (int i = 0; i < 4; ++i) o[i] = o[i] * correction + weight * float(part.x[i]);
    top = larger;
  }
  Four result;
#pragma unroll
  for (int i = 0; i < 4; ++i) result.x[i] = T(sum > 0.f ? o[i] / sum : 0.f);
  *reinterpret_cast<Four*>(out + row * head_dim + d) = result;
  if (d == 0) lse[row] = sum > 0.f ? top + logf(sum) : -INFINITY;
}

extern "C" void solve(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  const dim3 block(head_dim / 4, 4);
  merge<<<(rows + 3) / 4, block>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
