// Clean: a counter that warps add to by atomics is cleared by a plain store in every round, always between barriers;
// each warp has a counter of its own as well, for which a __syncwarp() is enough.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128, kRounds = 3;

__global__ void count_rounds(const float* in, float* out) {
  __shared__ int count, of_warp[kThreads / 32];
  const int t = threadIdx.x, warp = t / 32;
  float sum = 0.f;
  for (int round = 0; round < kRounds; ++round) {
    if (t == 0) count = 0;
    if (t % 32 == 0) of_warp[warp] = 0;
    __syncthreads();
    atomicAdd(&count, in[t] > 0.5f * round);
    atomicAdd(&of_warp[warp], 1);
    __syncwarp();
    if (t % 32 == 5) of_warp[warp] += round;
    __syncwarp();
    atomicAdd(&of_warp[warp], 1);
    __syncthreads();
    sum += count + of_warp[kThreads / 32 - 1 - warp];
    __syncthreads();
  }
  out[t] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { count_rounds<<<1, kThreads>>>(in, out); }
