// Fault: a thread reads what it copies by cp.async without waiting: the copy may not have arrived.
// n = 128
#include <cuda_runtime.h>

__global__ void double_all(const float* in, float* out) {
  __shared__ alignas(16) float stage[128];
  const int i = threadIdx.x * 4;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stage + i));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + i) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int j = 0; j < 4; ++j) out[i + j] = 2.f * stage[i + j];  // expect: async_hazard
}

extern "C" void solve(const float* in, float* out, int n) { double_all<<<1, n / 4>>>(in, out); }
