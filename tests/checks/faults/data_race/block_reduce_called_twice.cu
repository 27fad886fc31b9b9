// Fault: a block-wide reduction in a function of its own has no barrier at its end: its second call overwrites the
// static buffer that the first one's readers still need.
// n = 256
#include <cuda_runtime.h>

constexpr int kThreads = 128, kWarps = kThreads / 32;

__device__ float block_sum(float value) {
  __shared__ float partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;  // expect: data_race
  __syncthreads();
  float sum = 0.f;
  for (int w = 0; w < kWarps; ++w) sum += partial[w];  // other
  return sum;
}

// Layer normalisation of a row: the mean, then the variance.
__global__ void normalise(const float* in, float* out) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float mean = block_sum(in[i]) / kThreads, centred = in[i] - mean;
  out[i] = centred * rsqrtf(block_sum(centred * centred) / kThreads + 1e-5f);
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<n / kThreads, kThreads>>>(in, out); }
