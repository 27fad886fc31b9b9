// Clean: device functions keep the best keys in local arrays, of which only the filled part is read.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kBest = 4;

struct Best {
  float scores[kBest];
  int count = 0;
};

// Keeps the scores in descending order; the least of more than kBest is dropped.
__device__ void insert(Best& best, float score) {
  if (best.count == kBest) {
    if (score <= best.scores[kBest - 1]) return;
    --best.count;
  }
  int at = best.count++;
  for (; at > 0; --at) {
    if (best.scores[at - 1] >= score) break;
    best.scores[at] = best.scores[at - 1];
  }
  best.scores[at] = score;
}

__device__ float sum_of(const Best& best) {
  float sum = 0.f;
  for (int i = 0; i < best.count; ++i) sum += best.scores[i];
  return sum;
}

__global__ void best_scores(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  Best best;
  for (int key = 0; key < 1 + row % 7; ++key) insert(best, q[row * kDim] * k[key * kDim]);
  const float sum = sum_of(best);
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = sum;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  best_scores<<<1, n>>>(q, k, out, n);
}
