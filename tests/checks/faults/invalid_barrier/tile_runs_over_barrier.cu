// Fault: the mbarrier lies right behind the tile in dynamic shared memory, and the loop that fills the tile runs over
// its end: a plain store destroys the barrier.
// n = 64
#include <cuda_runtime.h>

constexpr int kTile = 64;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void hand_over(const float* in, float* out) {
  extern __shared__ unsigned long long raw[];
  float* tile = reinterpret_cast<float*>(raw);
  const unsigned full = shared_address(raw + kTile * sizeof(float) / sizeof(*raw));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(full) : "memory");
  __syncwarp();
  for (int i = threadIdx.x; i < kTile + 2; i += 32)
    tile[i] = in[i % kTile];  // expect: invalid_barrier
  __syncwarp();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(full) : "memory");  // expect: invalid_barrier
  for (int i = threadIdx.x; i < kTile; i += 32) out[i] = tile[kTile - 1 - i];
}

extern "C" void solve(const float* in, float* out, int n) {
  hand_over<<<1, 32, kTile * sizeof(float) + sizeof(unsigned long long)>>>(in, out);
}
