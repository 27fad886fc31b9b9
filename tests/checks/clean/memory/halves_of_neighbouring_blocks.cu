// Clean: blocks write 33 halves each: the last of one and the first of the next share a word of global memory.
// n = 132
#include <cuda_fp16.h>

constexpr int kPart = 33;

__global__ void double_part(const __half* in, __half* scratch) {
  const int i = blockIdx.x * kPart + threadIdx.x;
  scratch[i] = __hadd(in[i], in[i]);
}

__global__ void widen(const __half* scratch, float* out) { out[threadIdx.x] = __half2float(scratch[threadIdx.x]); }

extern "C" void solve(const __half* in, float* out, int n) {
  __half* scratch;
  cudaMalloc(&scratch, n * sizeof(__half));
  double_part<<<n / kPart, kPart>>>(in, scratch);
  widen<<<1, n>>>(scratch, out);
  cudaFree(scratch);
}
