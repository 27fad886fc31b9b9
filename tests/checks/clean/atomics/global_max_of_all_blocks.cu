// Clean: all blocks raise one maximum by integer atomics on the floats' bits; the next launch reads it.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__device__ void atomic_max(float* address, float value) {
  if (value >= 0.f)
    atomicMax(reinterpret_cast<int*>(address), __float_as_int(value));
  else
    atomicMin(reinterpret_cast<unsigned*>(address), __float_as_uint(value));
}

__global__ void reset(float* largest) { *largest = -INFINITY; }

__global__ void raise(const float* in, float* largest) {
  atomic_max(largest, in[blockIdx.x * kThreads + threadIdx.x]);
}

__global__ void shift(const float* in, const float* largest, float* out) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  out[i] = expf(in[i] - *largest);
}

extern "C" void solve(const float* in, float* out, int n) {
  float* largest;
  cudaMalloc(&largest, sizeof(float));
  reset<<<1, 1>>>(largest);
  raise<<<n / kThreads, kThreads>>>(in, largest);
  shift<<<n / kThreads, kThreads>>>(in, largest, out);
  cudaFree(largest);
}
