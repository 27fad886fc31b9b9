// Clean: thread_block::sync() as the barriers of a tile loop, called in a function that is handed the group.
// n = 512
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int kThreads = 128;

__device__ float row_sum(const cg::thread_group& group, float* buffer, float value) {
  const int rank = group.thread_rank();
  buffer[rank] = value;
  group.sync();
  for (int half = group.size() / 2; half > 0; half /= 2) {
    if (rank < half) buffer[rank] += buffer[rank + half];
    group.sync();
  }
  const float sum = buffer[0];
  group.sync();
  return sum;
}

__global__ void normalise(const float* in, float* out, int rows) {
  __shared__ float buffer[kThreads];
  const cg::thread_block block = cg::this_thread_block();
  for (int row = 0; row < rows; ++row) {
    const float p = expf(in[row * kThreads + block.thread_rank()]);
    out[row * kThreads + block.thread_rank()] = p / row_sum(block, buffer, p);
  }
}

extern "C" void solve(const float* in, float* out, int n) { normalise<<<1, kThreads>>>(in, out, n / kThreads); }
