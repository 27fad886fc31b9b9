// Clean: a shared histogram: zeroed, barrier, atomicAdd by all, barrier, then one atomicAdd a bin to global memory.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64, kBins = 32;

__global__ void histogram(const float* in, float* out) {
  __shared__ int bins[kBins];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
  __syncthreads();
  const float score = in[blockIdx.x * kThreads + threadIdx.x];
  atomicAdd(&bins[min(max(int(score * 8.f) + kBins / 2, 0), kBins - 1)], 1);
  __syncthreads();
  if (threadIdx.x < kBins && bins[threadIdx.x] > 0) atomicAdd(&out[threadIdx.x], float(bins[threadIdx.x]));
}

extern "C" void solve(const float* in, float* out, int n) {
  cudaMemset(out, 0, n * sizeof(float));
  histogram<<<n / kThreads, kThreads>>>(in, out);
}
