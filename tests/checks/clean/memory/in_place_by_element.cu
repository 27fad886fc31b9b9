// Clean: a kernel reads what other blocks wrote in the launch before, and overwrites only its own elements.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void smooth(const float* from, float* to, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  to[i] = 0.5f * (from[max(i - 1, 0)] + from[min(i + 1, n - 1)]);
}

__global__ void damp(float* data) { data[blockIdx.x * kThreads + threadIdx.x] *= 0.5f; }

extern "C" void solve(const float* in, float* out, int n) {
  float* scratch;
  cudaMalloc(&scratch, n * sizeof(float));
  smooth<<<n / kThreads, kThreads>>>(in, scratch, n);
  damp<<<n / kThreads, kThreads>>>(scratch);
  smooth<<<n / kThreads, kThreads>>>(scratch, out, n);
  damp<<<n / kThreads, kThreads>>>(out);
  cudaFree(scratch);
}
