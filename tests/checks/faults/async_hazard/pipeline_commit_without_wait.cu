// Fault: __pipeline_memcpy_async() is committed, but __pipeline_wait_prior() is missing before the tile is used.
// n = 256
#include <cuda_pipeline.h>

constexpr int kThreads = 64;

__global__ void reverse(const float* in, float* out) {
  __shared__ alignas(16) float stage[256];
  const int i = threadIdx.x * 4;
  __pipeline_memcpy_async(stage + i, in + i, 16);
  __pipeline_commit();
  __syncthreads();
  for (int j = threadIdx.x; j < 256; j += kThreads) out[j] = stage[255 - j];  // expect: async_hazard
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
