// Fault: the running sum of an online softmax is never set to zero; m is.
// n = 64
#include <cuda_runtime.h>

constexpr int kDim = 32;

__global__ void attend(const float* q, const float* k, const float* v, float* out, int n) {
  const int row = blockIdx.x, d = threadIdx.x;
  float m = -INFINITY, acc = 0.f, l;
  for (int key = 0; key < n; ++key) {
    float s = q[row * kDim + d] * k[key * kDim + d];
    for (int offset = 16; offset > 0; offset /= 2) s += __shfl_xor_sync(0xffffffffu, s, offset);
    const float m_new = fmaxf(m, s), correction = expf(m - m_new), p = expf(s - m_new);
    l = l * correction + p;  // expect: uninitialized_read
    acc = acc * correction + p * v[key * kDim + d];
    m = m_new;
  }
  out[row * kDim + d] = acc / l;  // expect: uninitialized_read
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int n) {
  attend<<<n, kDim>>>(q, k, v, out, n);
}
