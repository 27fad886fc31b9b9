// Fault: rows of a half tile are laid out 62 elements apart but hold 64: the last two of a row and the first two of
// the next are the same words, stored by different warps.
// n = 256
#include <cuda_fp16.h>

constexpr int kDim = 64, kStride = 62, kWarps = 4;

__global__ void stage(const __half* in, float* out) {
  __shared__ __half tile[kWarps * kStride + 2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int d = lane; d < kDim; d += 32)
    tile[warp * kStride + d] = in[warp * kDim + d];  // expect: data_race // other
  __syncthreads();
  for (int d = lane; d < kDim; d += 32) out[warp * kDim + d] = __half2float(tile[warp * kStride + d]);
}

extern "C" void solve(const __half* in, float* out, int n) { stage<<<1, 32 * kWarps>>>(in, out); }
