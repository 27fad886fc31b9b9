// Clean: a device function with a static shared buffer is called twice; its barrier at the end lets the buffer be used
// again.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 128, kWarps = kThreads / 32;

__device__ float block_sum(float value) {
  __shared__ float partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.f;
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  __syncthreads();
  return sum;
}

__global__ void normalise(const float* in, float* out) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float mean = block_sum(in[i]) / kThreads, centred = in[i] - mean;
  out[i] = centred * rsqrtf(block_sum(centred * centred) / kThreads + 1e-5f);
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<n / kThreads, kThreads>>>(in, out); }
