// A warp for each row; weights once, by all lanes, in shared memory; a weight of 0 is not read.
#include <cuda_runtime.h>

#ifndef ELEMENT
#define ELEMENT float
#endif
using T = ELEMENT;

// A warp for each row: lanes share the splits for the weights, which go to shared memory, then the dimensions.
__global__ void merge(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  extern __shared__ float weights[];
  const int row = blockIdx.x, lane = threadIdx.x;
  float top = -INFINITY, sum = 0.f;
  for (int s = lane; s < num_splits; s += 32) top = fmaxf(top, m[s * rows + row]);
  for (int lanes = 16; lanes > 0; lanes /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, lanes));
  for (int s = lane; s < num_splits; s += 32) {
    weights[s] = m[s * rows + row] == -INFINITY ? 0.f : __expf(m[s * rows + row] - top) * l[s * rows + row];
    sum += weights[s];
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  __syncwarp();  // lanes read each other's weights
  for (int d = lane; d < head_dim; d += 32) {
    float o = 0.f;
    for (int s = 0; s < num_splits; ++s) {
      if (weights[s] > 0.f) o += weights[s] * float(partial_out[(size_t(s) * rows + row) * head_dim + d]);
    }
    out[row * head_dim + d] = T(sum > 0.f ? o * (1.f / sum) : 0.f);
  }
  if (lane == 0) lse[row] = sum > 0.f ? top + __logf(sum) : -INFINITY;
}

extern "C" void solve(const T* partial_out, const float* m, const float* l, T* out, float* lse, int num_splits,
                      int rows, int head_dim) {
  merge<<<rows, 32, num_splits * sizeof(float)>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
