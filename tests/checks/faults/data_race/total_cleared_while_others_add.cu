// Fault: one block clears the total before it adds, behind a barrier; a barrier holds back its own block only, and
// the others add to what is then cleared.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void add_up(const float* in, float* out, float* total) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i == gridDim.x * kThreads - 1) *total = 0.f;  // expect: data_race
  __syncthreads();
  atomicAdd(total, in[i] * in[i]);  // other
  out[i] = in[i];
}

extern "C" void solve(const float* in, float* out, int n) {
  float* total;
  cudaMalloc(&total, sizeof(float));
  cudaMemset(total, 0, sizeof(float));
  add_up<<<n / kThreads, kThreads>>>(in, out, total);
  cudaFree(total);
}
