// Fault: the count of an mbarrier is computed as 0 for the last, partial warp: it must be at least 1.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void copy(const float* in, float* out, int producers) {
  __shared__ unsigned long long full;
  const unsigned address = shared_address(&full), count = producers / 32;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"  // expect: invalid_barrier
                 ::"r"(address), "r"(count) : "memory");  // expect: invalid_barrier
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { copy<<<1, n>>>(in, out, 24); }
