// Clean: the copies themselves arrive at the "full" mbarrier (cp.async.mbarrier.arrive.noinc); the consumer warp waits
// for no copy of its own.
// n = 256
#include <cuda_runtime.h>

using Barrier = unsigned long long;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void init(Barrier* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ bool try_wait(const Barrier* barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  return done;
}

__device__ void wait(const Barrier* barrier, unsigned parity) {
  while (!try_wait(barrier, parity)) {
  }
}

constexpr int kTile = 32, kStages = 2;

// Warp 0 loads, warp 1 uses.
__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[kStages][kTile];
  __shared__ Barrier full[kStages], empty[kStages];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < kStages) {
    init(&full[threadIdx.x], 32);
    init(&empty[threadIdx.x], 32);
  }
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages;
    const unsigned phase = tile / kStages % 2;
    if (threadIdx.x < 32) {
      wait(&empty[stage], phase ^ 1);
      const unsigned to = shared_address(&stages[stage][lane]), barrier = shared_address(&full[stage]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(in + tile * kTile + lane) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
    } else {
      wait(&full[stage], phase);
      out[tile * kTile + lane] = stages[stage][kTile - 1 - lane];
      arrive(&empty[stage]);
    }
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, 64>>>(in, out, n / kTile); }
