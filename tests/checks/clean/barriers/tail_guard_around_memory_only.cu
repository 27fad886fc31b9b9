// Clean: every access is guarded against the ragged tail, the barriers and shuffles between them are not.
// n = 200
#include <cuda_runtime.h>

constexpr int kThreads = 128, kWarps = kThreads / 32;

__global__ void softmax_of_chunk(const float* in, float* out, int n) {
  __shared__ float partial[kWarps], partial_sum[kWarps];
  const int i = blockIdx.x * kThreads + threadIdx.x, warp = threadIdx.x / 32;
  const float score = i < n ? in[i] : -INFINITY;
  float m = score;
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));
  if (threadIdx.x % 32 == 0) partial[warp] = m;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) m = fmaxf(m, partial[w]);
  const float p = i < n ? expf(score - m) : 0.f;
  float l = p;
  for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(0xffffffffu, l, offset);
  if (threadIdx.x % 32 == 0) partial_sum[warp] = l;
  __syncthreads();
  l = 0.f;
  for (int w = 0; w < kWarps; ++w) l += partial_sum[w];
  if (i < n) out[i] = p / l;
}

extern "C" void solve(const float* in, float* out, int n) {
  softmax_of_chunk<<<(n + kThreads - 1) / kThreads, kThreads>>>(in, out, n);
}
