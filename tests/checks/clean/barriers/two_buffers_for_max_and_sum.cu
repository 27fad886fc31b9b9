// Clean: maximum and sum have buffers of their own, so that the loop over rows needs no barrier between them; the next
// row's maximum waits for the barrier of the sum.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr unsigned kAll = 0xffffffffu;

__global__ void softmax_rows(const float* in, float* out, int rows) {
  __shared__ float maxima[kWarps], sums[kWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int row = 0; row < rows; ++row) {
    const float score = in[row * kThreads + threadIdx.x];
    float m = score;
    for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(kAll, m, offset));
    if (lane == 0) maxima[warp] = m;
    __syncthreads();
    for (int w = 0; w < kWarps; ++w) m = fmaxf(m, maxima[w]);
    const float p = expf(score - m);
    float l = p;
    for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(kAll, l, offset);
    if (lane == 0) sums[warp] = l;
    __syncthreads();
    l = 0.f;
    for (int w = 0; w < kWarps; ++w) l += sums[w];
    out[row * kThreads + threadIdx.x] = p / l;
  }
}

extern "C" void solve(const float* in, float* out, int n) { softmax_rows<<<1, kThreads>>>(in, out, n / kThreads); }
