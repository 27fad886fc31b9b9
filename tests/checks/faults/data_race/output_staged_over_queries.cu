// Fault: the output is staged in the shared memory of the Q tile while other warps still read queries from there.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kRows = 64;

// A thread for each row: its score with the next row's key, written out through shared memory.
__global__ void attend(const float* q, const float* k, const float* v, float* out, int n) {
  __shared__ float q_tile[kRows][kDim + 1];
  for (int i = threadIdx.x; i < kRows * kDim; i += kRows) q_tile[i / kDim][i % kDim] = q[i];
  __syncthreads();
  const int row = threadIdx.x, key = (row + 32) % n;
  float s = 0.f;
  for (int d = 0; d < kDim; ++d) s += q_tile[key][d] * k[row * kDim + d];  // other
  for (int d = 0; d < kDim; ++d) q_tile[row][d] = s * v[row * kDim + d];  // expect: data_race
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kDim; i += kRows) out[i] = q_tile[i / kDim][i % kDim];
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  attend<<<1, kRows>>>(q, k, v, out, n);
}
