// Fault: a sliding window begins kWindow keys before its row, also for the first rows, where that is before the first
// key.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kWindow = 8;

__global__ void mean_of_window(const float* v, float* out) {
  const int row = blockIdx.x, d = threadIdx.x;
  float acc = 0.f;
  for (int key = row - kWindow + 1; key <= row; ++key) acc += v[key * kDim + d];  // expect: out_of_bounds
  out[row * kDim + d] = acc / kWindow;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  mean_of_window<<<n, kDim>>>(v, out);
}
