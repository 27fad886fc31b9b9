// Fault: only thread 0 waits for cp.async before the barrier: that covers its own copies, not those of the others.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void reverse(const float* in, float* out) {
  __shared__ alignas(16) float stage[256];
  const int i = threadIdx.x * 4;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stage + i));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + i) : "memory");
  if (threadIdx.x == 0) asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int j = threadIdx.x; j < 256; j += kThreads) out[j] = stage[255 - j];  // expect: async_hazard
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
