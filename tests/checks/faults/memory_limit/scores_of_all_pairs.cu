// Fault: scratch for the scores of all pairs of rows of a million: more than the judge, or a card, has.
// n = 64
#include <cuda_runtime.h>

__global__ void copy(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

extern "C" void solve(const float* in, float* out, int n) {
  const size_t rows = 1000000;
  float* scores;
  cudaMalloc(&scores, rows * rows * sizeof(float));  // expect: memory_limit
  copy<<<1, n>>>(in, out);
  cudaFree(scores);
}
