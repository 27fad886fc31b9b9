// Fault: the buffer of the row maximum takes the row sum with no barrier between: a fast warp stores its sum while a
// slow one still looks for the maximum.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr unsigned kAll = 0xffffffffu;

// A block for each row of kThreads scores.
__global__ void softmax(const float* in, float* out) {
  __shared__ float partial[kWarps];
  const int i = blockIdx.x * kThreads + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float score = in[i];

  float m = score;
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(kAll, m, offset));
  if (lane == 0) partial[warp] = m;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) m = fmaxf(m, partial[w]);  // other

  const float p = expf(score - m);
  float l = p;
  for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(kAll, l, offset);
  if (lane == 0) partial[warp] = l;  // expect: data_race
  __syncthreads();
  l = 0.f;
  for (int w = 0; w < kWarps; ++w) l += partial[w];
  out[i] = p / l;
}

extern "C" void solve(const float* in, float* out, int n) { softmax<<<n / kThreads, kThreads>>>(in, out); }
