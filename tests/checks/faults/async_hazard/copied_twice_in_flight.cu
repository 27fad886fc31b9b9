// Fault: two tiles are prefetched at the start, both into stage 0: two copies to the same place are in flight.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 64, kStages = 2;

__device__ void copy4(float* to, const float* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"  // expect: async_hazard
               ::"r"(address), "l"(from) : "memory");  // expect: async_hazard
}

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[kStages][kTile];
  const int t = threadIdx.x;
  for (int tile = 0; tile < kStages; ++tile) {
    copy4(&stages[tile / kStages][t], in + tile * kTile + t);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) out[tile * kTile + t] = stages[0][kTile - 1 - t];
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
