// Fault: the consumer warp waits on the second stage's mbarrier, which was never initialised: only the first one was.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__global__ void hand_over(const float* in, float* out) {
  __shared__ unsigned long long full[2];
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(shared_address(&full[0])) : "memory");
  __syncthreads();
  unsigned done;
  asm volatile(  // expect: invalid_barrier
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(&full[1])) : "memory");  // expect: invalid_barrier
  out[threadIdx.x] = done ? in[threadIdx.x] : 0.f;
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, n>>>(in, out); }
