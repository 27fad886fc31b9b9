// Clean: no __syncthreads() at all: each warp reads and writes only its own rows of the shared array, ordered by
// __syncwarp().
// n = 8
#include <cuda_runtime.h>

constexpr int kDim = 32, kWarps = 4;

// A warp transposes the products of its row with each lane's dimension.
__global__ void outer(const float* q, const float* k, float* out, int n) {
  __shared__ float rows[kWarps][kDim * (kDim + 1)];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = warp; row < n; row += kWarps) {
    for (int d = 0; d < kDim; ++d) rows[warp][d * (kDim + 1) + lane] = q[row * kDim + d] * k[row * kDim + lane];
    __syncwarp();
    float sum = 0.f;
    for (int d = 0; d < kDim; ++d) sum += rows[warp][lane * (kDim + 1) + d];
    out[row * kDim + lane] = sum;
    __syncwarp();
  }
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  outer<<<1, 32 * kWarps>>>(q, k, out, n);
}
