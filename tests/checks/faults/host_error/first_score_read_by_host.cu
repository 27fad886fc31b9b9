// Fault: solve() reads a tensor itself to choose a launch: it has a device pointer, which the host cannot follow.
// n = 64
#include <cuda_runtime.h>

__global__ void copy(const float* in, float* out, float sign) { out[threadIdx.x] = sign * in[threadIdx.x]; }

extern "C" void solve(const float* in, float* out, int n) {
  const float sign = in[0] < 0.f ? -1.f : 1.f;  // expect: host_error
  copy<<<1, n>>>(in, out, sign);
}
