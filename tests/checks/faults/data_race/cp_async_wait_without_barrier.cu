// Fault: after cp.async.wait_group there is no __syncthreads(): a thread has waited for its own copies only, not for
// those of the others.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 128, kTile = kThreads * 4;

__global__ void reverse(const float* in, float* out) {
  __shared__ alignas(16) float tile[kTile];
  const int t = threadIdx.x;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + t * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + t * 4) : "memory");  // other
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  for (int i = t; i < kTile; i += kThreads) out[i] = tile[kTile - 1 - i];  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
