// Fault: __syncthreads() stands where cp.async.wait_group is needed: a barrier does not wait for copies.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void reverse(const float* in, float* out) {
  __shared__ alignas(16) float stage[256];
  const int i = threadIdx.x * 4;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stage + i));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + i) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  for (int j = threadIdx.x; j < 256; j += kThreads) out[j] = stage[255 - j];  // expect: async_hazard
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
