// Clean: warps have stages of their own, so that __syncwarp() after the wait, and before the refill, does.
// n = 1536
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 256, kStages = 2;

__device__ void copy16(float* to, const float* from) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ alignas(16) float stages[kThreads / 32][kStages][128];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* from = in + warp * 128 + lane * 4;
  copy16(&stages[warp][0][lane * 4], from);
  commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy16(&stages[warp][(tile + 1) % kStages][lane * 4], from + (tile + 1) * kTile);
    commit();
    wait<1>();
    __syncwarp();
    for (int i = lane; i < 128; i += 32)
      out[tile * kTile + warp * 128 + i] = stages[warp][tile % kStages][127 - i];
    __syncwarp();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
