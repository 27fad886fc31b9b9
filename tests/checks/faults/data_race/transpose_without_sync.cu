// Fault: K is transposed through shared memory with no barrier between the rows that go in and the columns that come
// out: a column holds elements of all warps.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void transpose(const float* k, float* out, int n) {
  __shared__ float tile[kDim][kDim + 1];
  tile[threadIdx.y][threadIdx.x] = k[threadIdx.y * kDim + threadIdx.x];  // other
  out[threadIdx.y * kDim + threadIdx.x] = tile[threadIdx.x][threadIdx.y];  // expect: data_race
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  transpose<<<1, dim3(kDim, n)>>>(k, out, n);
}
