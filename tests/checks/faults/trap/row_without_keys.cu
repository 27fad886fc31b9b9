// Fault: a row that no key may attend to has sum 0, which the kernel asserts cannot be.
// n = 64
#include <cassert>

__global__ void normalise(const float* in, float* out) {
  const float weight = in[threadIdx.x] > 0.f ? 1.f : 0.f;
  float sum = weight;
  for (int offset = 1; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  assert(sum > 0.f);  // expect: trap
  out[threadIdx.x] = weight / sum;
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<1, n>>>(in, out); }
