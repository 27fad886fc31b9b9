// Fault: dynamic shared memory is carved up as if an offset counted floats where it counts bytes: the maxima lie in the
// middle of the scores.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void softmax(const float* in, float* out) {
  extern __shared__ unsigned char raw[];
  float* scores = reinterpret_cast<float*>(raw);
  float* maxima = reinterpret_cast<float*>(raw + kThreads);  // kThreads * sizeof(float) would be right
  const int t = threadIdx.x;
  scores[t] = in[t];  // other
  float m = in[t];
  for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));
  if (t % 32 == 0) maxima[t / 32] = m;  // expect: data_race
  __syncthreads();
  for (int w = 0; w < kThreads / 32; ++w) m = fmaxf(m, maxima[w]);
  out[t] = expf(scores[t] - m);
}

extern "C" void solve(const float* in, float* out, int n) {
  softmax<<<1, kThreads, (kThreads + kThreads / 32) * sizeof(float)>>>(in, out);
}
