// Fault: the barrier expects 48 arrivals, but the leaders of two warps arrive for 32 threads each: the second one's
// count is more than is still pending.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void reverse(const float* in, float* out) {
  __shared__ float row[64];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 48;" ::"r"(shared_address(&full)) : "memory");
  __syncthreads();
  row[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  const unsigned address = shared_address(&full);
  if (threadIdx.x % 32 == 0)
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 32;" ::"r"(address) : "memory");  // expect: invalid_barrier
  __syncthreads();
  out[threadIdx.x] = row[63 - threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, n>>>(in, out); }
