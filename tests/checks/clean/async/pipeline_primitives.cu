// Clean: the primitives of <cuda_pipeline.h>: two tiles in flight, the older one waited for.
// n = 1024
#include <cuda_pipeline.h>

constexpr int kThreads = 64, kTile = 256;

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ alignas(16) float stages[2][kTile];
  const int i = threadIdx.x * 4;
  for (int tile = 0; tile <= tiles; ++tile) {
    if (tile < tiles) __pipeline_memcpy_async(&stages[tile % 2][i], in + tile * kTile + i, 16);
    __pipeline_commit();
    if (tile == 0) continue;
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int j = threadIdx.x; j < kTile; j += kThreads)
      out[(tile - 1) * kTile + j] = stages[(tile - 1) % 2][kTile - 1 - j];
    __syncthreads();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
