// Fault: the mbarrier is initialised anew for each tile without mbarrier.inval: the object is still in use.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void sum_tiles(const float* in, float* out, int tiles) {
  __shared__ unsigned long long full;
  const unsigned address = shared_address(&full);
  float sum = 0.f;
  for (int tile = 0; tile < tiles; ++tile) {
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(address) : "memory");  // expect: invalid_barrier
    __syncwarp();
    sum += in[tile * 32 + threadIdx.x];
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
    __syncwarp();
  }
  for (int tile = 0; tile < tiles; ++tile) out[tile * 32 + threadIdx.x] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { sum_tiles<<<1, 32>>>(in, out, n / 32); }
