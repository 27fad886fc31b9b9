// Clean: an mbarrier with an arrival of every thread, phase after phase, in place of __syncthreads().
// n = 512
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

constexpr int kThreads = 64;

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float tile_data[kThreads];
  __shared__ Barrier barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, kThreads);
  __syncthreads();
  unsigned phase = 0;
  auto sync = [&] {
    arrive(&barrier);
    wait(&barrier, phase);
    phase ^= 1;
  };
  for (int tile = 0; tile < tiles; ++tile) {
    tile_data[t] = in[tile * kThreads + t];
    sync();
    out[tile * kThreads + t] = tile_data[kThreads - 1 - t];
    sync();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kThreads); }
