// Fault: thread 0 puts the row's 1 / sum into shared memory and all threads read it with no barrier between: other
// warps may come first.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void normalise(const float* in, float* out) {
  __shared__ float weights[kThreads];
  __shared__ float inverse;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  weights[threadIdx.x] = expf(in[i]);
  __syncthreads();
  if (threadIdx.x < 32) {
    float sum = weights[threadIdx.x] + weights[threadIdx.x + 32];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0) inverse = 1.f / sum;  // other
    __syncwarp();
  }
  out[i] = weights[threadIdx.x] * inverse;  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<n / kThreads, kThreads>>>(in, out); }
