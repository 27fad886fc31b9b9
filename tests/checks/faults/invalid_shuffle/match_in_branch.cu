// Fault: lanes with a valid page look for others with the same page by __match_any_sync() over the whole warp.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPagesPerSeq = 4;

__global__ void sharers(const int* pages, float* out, int n) {
  const int lane = threadIdx.x, page = lane < n * kPagesPerSeq ? pages[lane] : -1;
  int count = 0;
  if (page >= 0) count = __popc(__match_any_sync(0xffffffffu, page));  // expect: invalid_shuffle
  for (int seq = 0; seq < n; ++seq) out[seq * kDim + lane] = count;
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  sharers<<<1, kDim>>>(pages, out, n);
}
