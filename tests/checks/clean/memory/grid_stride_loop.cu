// Clean: a small grid walks over all elements; blocks touch neighbouring elements but never the same.
// n = 1000
#include <cuda_runtime.h>

__global__ void scale(const float* in, float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 2.f * in[i];
}

__global__ void shift(float* out, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] += 1.f;
}

extern "C" void solve(const float* in, float* out, int n) {
  scale<<<3, 96>>>(in, out, n);
  shift<<<2, 64>>>(out, n);
}
