// Clean: the shared memory of the Q tile is used again to stage the output, after a barrier.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kRows = 64;

union Stage {
  float q[kRows][kDim + 1];
  float out[kDim][kRows + 1];  // transposed
};

__global__ void attend(const float* q, const float* k, const float* v, float* out, int n) {
  __shared__ Stage stage;
  for (int i = threadIdx.x; i < kRows * kDim; i += kRows) stage.q[i / kDim][i % kDim] = q[i];
  __syncthreads();
  const int row = threadIdx.x, key = n - 1 - row;
  float s = 0.f;
  for (int d = 0; d < kDim; ++d) s += stage.q[key][d] * k[row * kDim + d];
  __syncthreads();
  for (int d = 0; d < kDim; ++d) stage.out[d][row] = s * v[row * kDim + d];
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kDim; i += kRows) out[i] = stage.out[i % kDim][i / kDim];
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  attend<<<1, kRows>>>(q, k, v, out, n);
}
