// Fault: each thread stores one probability and then multiplies all of them with V: no barrier lets the others' stores
// come first.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32, kKeys = 64;

// A block for each query row: threads first take a key each, then a dimension each.
__global__ void attend(const float* q, const float* k, const float* v, float* out, int n) {
  __shared__ float p[kKeys];
  const int row = blockIdx.x, key = threadIdx.x;
  float s = 0.f;
  for (int d = 0; d < kDim; ++d) s += q[row * kDim + d] * k[key * kDim + d];
  p[key] = expf(s * 0.1f);  // other
  if (threadIdx.x < kDim) {
    float acc = 0.f, l = 0.f;
    for (int j = 0; j < kKeys; ++j) {
      const float weight = p[j];  // expect: data_race
      l += weight;
      acc += weight * v[j * kDim + threadIdx.x];
    }
    out[row * kDim + threadIdx.x] = acc / l;
  }
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  attend<<<n, kKeys>>>(q, k, v, out, n);
}
