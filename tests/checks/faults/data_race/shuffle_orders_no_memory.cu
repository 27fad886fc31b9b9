// Fault: a shuffle between a store and the neighbours' loads is taken for a barrier: it exchanges registers, and
// orders nothing in memory.
// n = 128
#include <cuda_runtime.h>

constexpr int kWarps = 4;

__global__ void weighted(const float* in, float* out) {
  __shared__ float p[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float weight = expf(in[threadIdx.x]);
  p[warp][lane] = weight;  // other
  float sum = weight;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  out[threadIdx.x] = p[warp][31 - lane] / sum;  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { weighted<<<1, 32 * kWarps>>>(in, out); }
