// Clean: an element of a local array is read behind && where it has been filled. The compiler may load it before it
// asks, and drop what it got.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void second_best(const float* q, const float* k, float* out, int n) {
  const int row = threadIdx.x;
  float best[2];
  int count = 0;
  for (int key = 0; key < 1 + row % 3; ++key) {
    const float s = q[row * kDim] * k[key * kDim];
    if (count == 2 && s <= best[1]) continue;
    if (count > 0 && s > best[0]) {
      best[1] = best[0];
      best[0] = s;
    } else {
      best[count > 0] = s;
    }
    count = min(count + 1, 2);
  }
  const float result = count == 2 ? best[row % 2] : best[0];
  for (int d = 0; d < kDim; ++d) out[row * kDim + d] = result;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  second_best<<<1, n>>>(q, k, out, n);
}
