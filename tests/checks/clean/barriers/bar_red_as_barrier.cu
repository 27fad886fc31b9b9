// Clean: bar.red of inline PTX counts the threads whose row needs rescaling, and is the barrier between the passes.
// n = 128
#include <cuda_runtime.h>

__device__ int count_over_block(bool predicate) {
  int count;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; bar.red.popc.u32 %0, 0, p; }"
               : "=r"(count) : "r"(static_cast<unsigned>(predicate)) : "memory");
  return count;
}

__global__ void rescale(const float* in, float* out, int n) {
  __shared__ float row[128];
  row[threadIdx.x] = in[threadIdx.x];
  const int large = count_over_block(in[threadIdx.x] > 1.f);
  out[threadIdx.x] = row[n - 1 - threadIdx.x] / (1 + large);
}

extern "C" void solve(const float* in, float* out, int n) { rescale<<<1, n>>>(in, out, n); }
