// Fault: the kernel scales the query in its own input "to save a register": solve() must not change its inputs.
// n = 32
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void scaled(const float* q, float* out, float scale) {
  const int i = blockIdx.x * kDim + threadIdx.x;
  float* writable = const_cast<float*>(q);
  writable[i] *= scale;  // expect: read_only_write
  out[i] = writable[i];
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  scaled<<<n, kDim>>>(q, out, 0.1767767f);
}
