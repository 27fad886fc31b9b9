// Fault: the block's largest score, found by atomicMax, is read plainly with no barrier before: warps still to come may
// raise it.
// n = 128
#include <cuda_runtime.h>

constexpr int kThreads = 128;

// Integers in the order of the floats whose bits they come from; its own inverse.
__device__ int ordered(int bits) { return bits >= 0 ? bits : bits ^ 0x7fffffff; }

__global__ void weights(const float* in, float* out) {
  __shared__ int largest;
  if (threadIdx.x == 0) largest = ordered(__float_as_int(-INFINITY));
  __syncthreads();
  atomicMax(&largest, ordered(__float_as_int(in[threadIdx.x])));  // other
  out[threadIdx.x] = expf(in[threadIdx.x] - __int_as_float(ordered(largest)));  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { weights<<<1, kThreads>>>(in, out); }
