// Clean: the largest score of a block by a compare-and-swap loop that begins with an atomic read.
// n = 128
#include <cuda_runtime.h>

__device__ void atomic_max(float* address, float value) {
  int* bits = reinterpret_cast<int*>(address);
  int old = atomicAdd(bits, 0);
  while (__int_as_float(old) < value) {
    const int seen = atomicCAS(bits, old, __float_as_int(value));
    if (seen == old) break;
    old = seen;
  }
}

__global__ void shifted(const float* in, float* out) {
  __shared__ float largest;
  if (threadIdx.x == 0) largest = -INFINITY;
  __syncthreads();
  atomic_max(&largest, in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = in[threadIdx.x] - largest;
}

extern "C" void solve(const float* in, float* out, int n) { shifted<<<1, n>>>(in, out); }
