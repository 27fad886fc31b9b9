// Fault: scores are summed up in scratch memory that nobody has cleared: cudaMalloc leaves what was there before.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kThreads = 64;

__global__ void add_scores(const float* q, const float* k, float* scores, int n) {
  const int i = blockIdx.x * kThreads + threadIdx.x, row = i / n, key = i % n;
  for (int d = 0; d < kDim; ++d) scores[i] += q[row * kDim + d] * k[key * kDim + d];  // expect: uninitialized_read
}

__global__ void largest(const float* scores, float* out, int n) {
  float m = -INFINITY;
  for (int key = 0; key < n; ++key) m = fmaxf(m, scores[blockIdx.x * n + key]);
  out[blockIdx.x * kDim + threadIdx.x] = m;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  float* scores;
  cudaMalloc(&scores, n * n * sizeof(float));
  add_scores<<<n * n / kThreads, kThreads>>>(q, k, scores, n);
  largest<<<n, kDim>>>(scores, out, n);
  cudaFree(scores);
}
