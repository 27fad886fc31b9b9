// Fault: the mbarrier expects all 64 threads, but only the producer warp arrives: its phase never completes.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ bool try_wait(const unsigned long long* barrier, unsigned parity) {
  unsigned done;
  asm volatile(  // expect: deadlock
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");  // expect: deadlock
  return done;
}
// Warp 0 loads, both use.
__global__ void broadcast(const float* in, float* out) {
  __shared__ float stage[32];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 64;" ::"r"(shared_address(&full)) : "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    stage[threadIdx.x] = in[threadIdx.x];
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&full)) : "memory");
  }
  while (!try_wait(&full, 0)) {  // expect: deadlock
  }
  out[threadIdx.x] = stage[threadIdx.x % 32];
}

extern "C" void solve(const float* in, float* out, int n) { broadcast<<<1, n>>>(in, out); }
