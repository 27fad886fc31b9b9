// Fault: no barrier between zeroing a shared histogram and the first atomicAdd: counts that come early are wiped out.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 256, kBins = 64;

__global__ void histogram(const float* in, float* out, int n) {
  __shared__ int bins[kBins];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0;  // other
  const int bin = min(max(int(in[threadIdx.x] * 16.f) + kBins / 2, 0), kBins - 1);
  atomicAdd(&bins[bin], 1);  // expect: data_race
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x % kBins];
}

extern "C" void solve(const float* in, float* out, int n) { histogram<<<1, kThreads>>>(in, out, n); }
