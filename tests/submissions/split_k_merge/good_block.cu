// A block per row, weights in shared memory.
#include <cuda_runtime.h>

constexpr int kMaxSplits = 128;

// A block for each row, a thread for each dimension.
__global__ void merge(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim) {
  __shared__ float weights[kMaxSplits];
  int row = blockIdx.x, d = threadIdx.x;

  float largest = -INFINITY;
  for (int s = 0; s < num_splits; ++s) largest = fmaxf(largest, m[s * rows + row]);
  for (int s = d; s < num_splits; s += blockDim.x) {
    float sum_of_split = l[s * rows + row];
    weights[s] = sum_of_split > 0.f ? sum_of_split * expf(m[s * rows + row] - largest) : 0.f;
  }
  __syncthreads();

  float sum = 0.f, acc = 0.f;
  for (int s = 0; s < num_splits; ++s) {
    sum += weights[s];
    if (weights[s] > 0.f) acc += weights[s] * partial_out[((size_t)s * rows + row) * head_dim + d];
  }
  out[row * head_dim + d] = sum > 0.f ? acc / sum : 0.f;
  if (d == 0) lse[row] = sum > 0.f ? largest + logf(sum) : -INFINITY;
}

extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim) {
  merge<<<rows, head_dim>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
