// Clean: at the ragged tail the mask of the shuffles comes from a ballot of all lanes, taken before the branch; only
// lanes in it are read.
// n = 77
#include <cuda_runtime.h>

constexpr int kThreads = 64;

__global__ void largest(const float* in, float* out, int n) {
  const int key = blockIdx.x * kThreads + threadIdx.x, lane = threadIdx.x % 32;
  const unsigned valid = __ballot_sync(0xffffffffu, key < n);
  if (key < n) {
    float m = in[key];
    const int count = __popc(valid);
    for (int offset = 16; offset > 0; offset /= 2) {
      const int source = lane + offset < count ? lane + offset : lane;
      m = fmaxf(m, __shfl_sync(valid, m, source));
    }
    out[key] = __shfl_sync(valid, m, 0);
  }
}

extern "C" void solve(const float* in, float* out, int n) {
  largest<<<(n + kThreads - 1) / kThreads, kThreads>>>(in, out, n);
}
