// Clean: lanes with the same page find each other by __match_any_sync() and add up among themselves.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPagesPerSeq = 4;

__global__ void share(const int* pages, float* out, int n) {
  const int lane = threadIdx.x, page = lane < n * kPagesPerSeq ? pages[lane] : -1;
  const unsigned peers = __match_any_sync(0xffffffffu, page);
  const int total = __reduce_add_sync(peers, lane), leader = __ffs(peers) - 1;
  const int of_leader = __shfl_sync(peers, total, leader);
  for (int seq = 0; seq < n; ++seq) out[seq * kDim + lane] = of_leader - total + page;
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  share<<<1, kDim>>>(pages, out, n);
}
