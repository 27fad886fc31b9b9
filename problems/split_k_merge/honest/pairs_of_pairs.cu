// Splits are merged in pairs, and pairs of pairs, each result normalised.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

struct State {
  float m, l, o;  // o is the mean of what has been merged
};

__device__ State merged(State a, State b) {
  if (a.l == 0.f) return b;
  if (b.l == 0.f) return a;
  const float top = fmaxf(a.m, b.m), x = __expf(a.m - top) * a.l, y = __expf(b.m - top) * b.l;
  return {top, x + y, (a.o * x + b.o * y) / (x + y)};
}

// A block for each row, a thread for each dimension; splits are merged in pairs, pairs of pairs, and so on.
__global__ void merge(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  const int row = blockIdx.x, d = threadIdx.x;
  State stack[20];
  int depth = 0;
  for (int s = 0; s < num_splits; ++s) {
    const int split = s * rows + row;
    const float value = l[split] > 0.f ? float(partial_out[size_t(split) * head_dim + d]) : 0.f;
    stack[depth++] = {m[split], l[split], value};
    for (int n = s + 1; n % 2 == 0; n /= 2, --depth) stack[depth - 2] = merged(stack[depth - 2], stack[depth - 1]);
  }
  for (; depth > 1; --depth) stack[depth - 2] = merged(stack[depth - 2], stack[depth - 1]);
  out[row * head_dim + d] = T(stack[0].l > 0.f ? stack[0].o : 0.f);
  if (d == 0) lse[row] = stack[0].l > 0.f ? stack[0].m + logf(stack[0].l) : -INFINITY;
}

extern "C" void solve(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
