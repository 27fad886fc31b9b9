// Fault: two splits of the keys store their results to the same row of out instead of to partial results of their own:
// one of them is lost.
// n = 16
#include <cuda_runtime.h>

constexpr int kDim = 32, kSplits = 2;

// Grid: (rows, splits). A thread for each dimension.
__global__ void attend(const float* q, const float* k, const float* v, float* out, int n) {
  const int row = blockIdx.x, split = blockIdx.y, d = threadIdx.x, keys = n / kSplits;
  float acc = 0.f, l = 0.f;
  for (int key = split * keys; key < (split + 1) * keys; ++key) {
    float s = q[row * kDim + d] * k[key * kDim + d];
    for (int offset = 16; offset > 0; offset /= 2) s += __shfl_xor_sync(0xffffffffu, s, offset);
    const float p = expf(s * 0.1f);
    l += p;
    acc += p * v[key * kDim + d];
  }
  out[row * kDim + d] = acc / l;  // expect: data_race // other
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  attend<<<dim3(n, kSplits), kDim>>>(q, k, v, out, n);
}
