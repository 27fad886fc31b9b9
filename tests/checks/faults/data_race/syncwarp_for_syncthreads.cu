// Fault: __syncwarp() stands where __syncthreads() is needed: the query row comes from two warps.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32;

// Two rows a block; each thread multiplies a dimension of its row with the other row.
__global__ void products(const float* q, float* out) {
  __shared__ float rows[2][kDim];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 2 + warp;
  rows[warp][lane] = q[row * kDim + lane];  // other
  __syncwarp();
  out[row * kDim + lane] = rows[warp][lane] * rows[1 - warp][lane];  // expect: data_race
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  products<<<n / 2, 64>>>(q, out);
}
