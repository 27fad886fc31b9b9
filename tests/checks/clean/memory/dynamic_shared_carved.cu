// Clean: dynamic shared memory is carved into keys, scores and maxima, each at an offset that suits its type.
// n = 128
#include <cuda_fp16.h>

constexpr int kThreads = 128;

__global__ void softmax(const __half* in, float* out) {
  extern __shared__ __align__(16) unsigned char raw[];
  __half* keys = reinterpret_cast<__half*>(raw);
  float* scores = reinterpret_cast<float*>(keys + kThreads);
  float* maxima = scores + kThreads;
  const int t = threadIdx.x;
  keys[t] = in[t];
  __syncthreads();
  const float score = __half2float(keys[kThreads - 1 - t]);
  scores[t] = score;
  float m = score;
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));
  if (t % 32 == 0) maxima[t / 32] = m;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) m = fmaxf(m, maxima[w]);
  out[t] = expf(scores[kThreads - 1 - t] - m);
}

extern "C" void solve(const __half* in, float* out, int n) {
  softmax<<<1, kThreads, kThreads * (sizeof(__half) + sizeof(float)) + kThreads / 32 * sizeof(float)>>>(in, out);
}
