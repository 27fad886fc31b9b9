// Fault: the loop reads the stage that it has just begun to fill, (tile + 1) % kStages, instead of that of its tile.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 64, kStages = 2;

__device__ void copy4(float* to, const float* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[kStages][kTile];
  const int t = threadIdx.x;
  copy4(&stages[0][t], in + t);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy4(&stages[(tile + 1) % kStages][t], in + (tile + 1) * kTile + t);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[tile * kTile + t] = stages[(tile + 1) % kStages][kTile - 1 - t];  // expect: async_hazard
    __syncthreads();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
