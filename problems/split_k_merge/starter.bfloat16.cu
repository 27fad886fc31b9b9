// Split-K merge in bfloat16.
// All pointers are device pointers, row-major: partial_out [num_splits, rows, head_dim], m and l [num_splits, rows],
// out [rows, head_dim], lse [rows]. They are drawn in the problem statement (judge.py show split_k_merge).
// This file compiles, runs and is not accepted yet: what is missing is rung 1 of the hints, in three steps.
// Judge it:  python judge.py split_k_merge this_file.cu
// Partial outputs are stored in 16 bits; calculate in float: float(x) of an element, Element(y) of a float. m, l and
// lse are floats. Weights and sums stay in float until the end: an answer from 16-bit sums is refused.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

using Element = __nv_bfloat16;  // of partial_out and out

// Grid: (rows), a block for each row. Block: D threads, one for each of the row's elements.
template <int D>
__global__ void __launch_bounds__(D)
split_k_merge(const Element* partial_out, const float* m, const float* l, Element* out, float* lse, int num_splits,
              int rows) {
  const int row = blockIdx.x, d = threadIdx.x;

  // TODO 1, the maximum: largest = max of m[s * rows + row] over the splits s. It is -INFINITY where all are empty.
  // Common mistakes: a maximum that starts at 0; an index of row * num_splits + s.
  float largest = -INFINITY;

  // TODO 2, one walk over the splits, skipping empty ones (m is -INFINITY, l is 0):
  //   weight = exp(m[s * rows + row] - largest) * l[s * rows + row]
  //   total += weight        sum += weight * partial_out[(size_t(s) * rows + row) * D + d]
  // Common mistakes: partial_out multiplied by the weight 0 of an empty split, where it may hold NaN; the factor l left
  // out, though partial_out is already divided by it; an int offset, which overflows.
  float total = 0.0f, sum = 0.0f;

  // TODO 3, lse: the natural logarithm of all exponentials of the row together, largest + log(total).
  // Common mistakes: log(total) alone; 0 / 0 and -INFINITY - -INFINITY, both NaN, in a row whose splits are all empty.
  out[static_cast<size_t>(row) * D + d] = Element(total > 0.0f ? sum / total : 0.0f);
  if (d == 0) lse[row] = largest;
}

extern "C" void solve(const __nv_bfloat16* partial_out, const float* m, const float* l, __nv_bfloat16* out,
                      float* lse, int num_splits, int rows, int head_dim) {
  if (head_dim == 64)
    split_k_merge<64><<<rows, 64>>>(partial_out, m, l, out, lse, num_splits, rows);
  else
    split_k_merge<128><<<rows, 128>>>(partial_out, m, l, out, lse, num_splits, rows);
}
