// Fault: the barrier of a tree reduction stands behind the loop instead of in it: a level reads sums that another warp
// has not stored yet.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 256;

__global__ void row_sum(const float* in, float* out) {
  __shared__ float partial[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  partial[threadIdx.x] = in[i];
  __syncthreads();
  for (int half = kThreads / 2; half >= 32; half /= 2)
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];  // expect: data_race // other
  __syncthreads();
  float sum = 0.f;
  for (int j = 0; j < 32; ++j) sum += partial[j];
  out[i] = sum;
}

extern "C" void solve(const float* in, float* out, int n) { row_sum<<<n / kThreads, kThreads>>>(in, out); }
