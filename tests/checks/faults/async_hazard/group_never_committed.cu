// Fault: the copies of the first tile are never committed as a group: wait_group waits for committed groups only.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 64;

__device__ void copy4(float* to, const float* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(from) : "memory");
}

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stage[kTile];
  const int t = threadIdx.x;
  for (int tile = 0; tile < tiles; ++tile) {
    copy4(&stage[t], in + tile * kTile + t);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    out[tile * kTile + t] = stage[kTile - 1 - t];  // expect: async_hazard
    __syncthreads();
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
