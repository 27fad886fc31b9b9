// Clean: warps count themselves in with an atomic after a fence; the last one to come reads what all have stored.
// n = 128
#include <cuda_runtime.h>

constexpr int kWarps = 4;

__global__ void last_warp_sums(const float* in, float* out) {
  __shared__ float data[32 * kWarps];
  __shared__ int arrived;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0) arrived = 0;
  __syncthreads();
  data[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  int before = 0;
  if (lane == 0) {
    __threadfence_block();
    before = atomicAdd(&arrived, 1);
    __threadfence_block();
  }
  before = __shfl_sync(0xffffffffu, before, 0);
  if (before != kWarps - 1) return;
  __syncwarp();
  for (int i = lane; i < 32 * kWarps; i += 32) out[i] = data[32 * kWarps - 1 - i];
}

extern "C" void solve(const float* in, float* out, int n) { last_warp_sums<<<1, n>>>(in, out); }
