// Fault: a row is smoothed in place: the last thread of a block reads its right neighbour, which the next block may
// have overwritten already.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void copy(const float* in, float* out) {
  out[blockIdx.x * kThreads + threadIdx.x] = in[blockIdx.x * kThreads + threadIdx.x];
}

__global__ void smooth(float* data, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float left = data[max(i - 1, 0)], right = data[min(i + 1, n - 1)];  // other
  __syncthreads();
  data[i] = 0.5f * (left + right);  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) {
  copy<<<n / kThreads, kThreads>>>(in, out);
  smooth<<<n / kThreads, kThreads>>>(out, n);
}
