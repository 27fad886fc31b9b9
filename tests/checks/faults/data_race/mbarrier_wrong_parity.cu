// Fault: the consumer begins with parity 1, the phase before the first, which counts as complete: it does not wait for
// the producer's data.
// n = 64
#include <cuda_runtime.h>

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ bool try_wait(const unsigned long long* barrier, unsigned parity) {
  unsigned done;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");
  return done;
}

// Warp 1 loads, warp 0 uses.
__global__ void hand_over(const float* in, float* out) {
  __shared__ float stage[32];
  __shared__ unsigned long long full;
  const int lane = threadIdx.x % 32;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(shared_address(&full)) : "memory");
  __syncthreads();
  if (threadIdx.x >= 32) {
    stage[lane] = in[lane] * 0.5f;  // other
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&full)) : "memory");
    out[threadIdx.x] = in[lane];
  } else {
    while (!try_wait(&full, 1)) {
    }
    out[threadIdx.x] = stage[lane];  // expect: data_race
  }
}

extern "C" void solve(const float* in, float* out, int n) { hand_over<<<1, 64>>>(in, out); }
