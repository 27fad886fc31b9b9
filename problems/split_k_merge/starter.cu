// Split-K merge. All pointers are device pointers: partial_out [num_splits, rows, head_dim], m and l [num_splits, rows],
// out [rows, head_dim], lse [rows].
// Judge it:  python judge.py split_k_merge this_file.cu

#include <cuda_runtime.h>

// One block for each row, one thread for each of its elements.
__global__ void split_k_merge(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                              int num_splits, int rows, int head_dim) {
  const int row = blockIdx.x, d = threadIdx.x;

  // TODO: the largest m of this row's splits; the weight exp(m_s - m) * l_s of each split, 0 for an empty one;
  // the weighted mean of partial_out; and lse, the natural logarithm of all the sums together.
  out[static_cast<size_t>(row) * head_dim + d] = 0.0f;
  if (d == 0) lse[row] = 0.0f;
}

extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim) {
  split_k_merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
