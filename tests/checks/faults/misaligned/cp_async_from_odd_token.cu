// Fault: the source of 16-byte copies is moved on by one float, as for a key shifted against its query.
// n = 132
#include <cuda_runtime.h>

__global__ void shifted(const float* in, float* out, int n) {
  __shared__ alignas(16) float row[128];
  const int i = threadIdx.x * 4;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(row + i));
  in += 1;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + i) : "memory");  // expect: misaligned
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  for (int j = threadIdx.x; j < n; j += 32) out[j] = row[127 - j % 128];
}

extern "C" void solve(const float* in, float* out, int n) { shifted<<<1, 32>>>(in, out, n); }
