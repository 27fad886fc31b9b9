// Fault: a block of 64 x 32 threads, one for each score of a tile: a block has at most 1,024.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void products(const float* q, float* out) {
  out[threadIdx.y * kDim + threadIdx.x] = 2.f * q[threadIdx.y * kDim + threadIdx.x];
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  products<<<1, dim3(kDim, n)>>>(q, out);  // expect: invalid_launch
}
