// Clean: three stages, one barrier a tile; at the end empty groups are committed so that wait_group 1 keeps its
// meaning.
// n = 1536
#include <cuda_runtime.h>

constexpr int kThreads = 64, kTile = 256, kStages = 3;

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
  for (int tile = 0; tile < kStages - 1; ++tile) {
    copy16(&stages[tile][t * 4], in + tile * kTile + t * 4);
    commit();
  }
  for (int tile = 0; tile < tiles; ++tile) {
    wait<kStages - 2>();
    __syncthreads();
    const int next = tile + kStages - 1;
    if (next < tiles) copy16(&stages[next % kStages][t * 4], in + next * kTile + t * 4);
    commit();
    for (int i = t; i < kTile; i += kThreads) out[tile * kTile + i] = stages[tile % kStages][kTile - 1 - i];
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kTile); }
