// Fault: the first block clears the total and then adds to it, as the others do: nothing makes these wait until it is
// clear, whatever the first block has added since.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void add_up(const float* in, float* out, float* total) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i == 0) *total = 0.f;  // other
  __syncthreads();
  atomicAdd(total, in[i] * in[i]);  // expect: data_race
  out[i] = in[i];
}

extern "C" void solve(const float* in, float* out, int n) {
  float* total;
  cudaMalloc(&total, sizeof(float));
  cudaMemset(total, 0, sizeof(float));
  add_up<<<n / kThreads, kThreads>>>(in, out, total);
  cudaFree(total);
}
