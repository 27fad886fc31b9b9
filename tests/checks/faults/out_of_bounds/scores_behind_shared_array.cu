// Fault: shared memory holds a score for each of 96 keys, but all 128 threads of the block store one.
// n = 128
#include <cuda_runtime.h>

constexpr int kKeys = 96;

__global__ void normalise(const float* in, float* out) {
  __shared__ float scores[kKeys];
  scores[threadIdx.x] = expf(in[threadIdx.x]);  // expect: out_of_bounds
  __syncthreads();
  float sum = 0.f;
  for (int key = 0; key < kKeys; ++key) sum += scores[key];
  out[threadIdx.x] = scores[threadIdx.x % kKeys] / sum;
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<1, n>>>(in, out); }
