// Clean: two halves of a block reduce rows of their own at their own pace, each with a named barrier of 64 threads.
// n = 512
#include <cuda_runtime.h>

constexpr int kGroup = 64;

__global__ void row_sums(const float* in, float* out, int rows) {
  __shared__ float partial[2][kGroup];
  const int group = threadIdx.x / kGroup, t = threadIdx.x % kGroup;
  auto sync = [&] { asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kGroup) : "memory"); };
  for (int row = group; row < (group == 0 ? rows : rows - 2); row += 2) {
    partial[group][t] = in[row * kGroup + t];
    sync();
    for (int half = kGroup / 2; half > 0; half /= 2) {
      if (t < half) partial[group][t] += partial[group][t + half];
      sync();
    }
    out[row * kGroup + t] = partial[group][0];
    sync();
  }
  __syncthreads();
  if (group == 1) out[(rows - 1) * kGroup + t] = partial[0][0];
}

extern "C" void solve(const float* in, float* out, int n) { row_sums<<<1, 2 * kGroup>>>(in, out, n / kGroup); }
