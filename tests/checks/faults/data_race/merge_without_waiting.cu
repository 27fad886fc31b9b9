// Fault: each block stores its partial sum and then merges those of all blocks, in one launch: nothing makes it wait
// for the others.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 32;

__global__ void row_sum(const float* in, float* out, float* partial) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  float sum = in[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;  // other
  __threadfence();
  __syncthreads();
  float total = 0.f;
  for (int b = 0; b < gridDim.x; ++b) total += partial[b];  // expect: data_race
  out[i] = total;
}

extern "C" void solve(const float* in, float* out, int n) {
  float* partial;
  cudaMalloc(&partial, n / kThreads * sizeof(float));
  cudaMemset(partial, 0, n / kThreads * sizeof(float));
  row_sum<<<n / kThreads, kThreads>>>(in, out, partial);
  cudaFree(partial);
}
