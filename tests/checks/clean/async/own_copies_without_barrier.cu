// Clean: each thread uses only what it has copied itself: waiting for its own groups is enough, without a barrier.
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
  __shared__ alignas(16) float stages[kStages][kTile];
  const int t = threadIdx.x;
  copy16(&stages[0][t * 4], in + t * 4);
  commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) copy16(&stages[(tile + 1) % kStages][t * 4], in + (tile + 1) * kTile + t * 4);
    commit();
    wait<1>();
    for (int i = 0; i < 4; ++i) out[tile * kTile + t * 4 + i] = stages[tile % kStages][t * 4 + 3 - i];
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
