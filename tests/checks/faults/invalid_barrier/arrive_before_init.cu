// Fault: nobody initialises the mbarrier before the warps arrive at it: its count is whatever lies in shared memory.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void reverse(const float* in, float* out) {
  __shared__ float row[64];
  __shared__ unsigned long long full;
  row[threadIdx.x] = in[threadIdx.x];
  const unsigned address = shared_address(&full);
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");  // expect: invalid_barrier
  __syncthreads();
  out[threadIdx.x] = row[63 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, n>>>(in, out); }
