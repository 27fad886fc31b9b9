// Clean: in one instruction, neighbouring lanes store neighbouring halves of one word; then words are read.
// n = 32
#include <cuda_fp16.h>

__global__ void pairs(const __half* in, float* out) {
  __shared__ __half row[32];
  const int lane = threadIdx.x;
  row[31 - lane] = in[lane];
  __syncwarp();
  const __half2 pair = *reinterpret_cast<const __half2*>(&row[lane / 2 * 2]);
  out[lane] = __low2float(pair) + __high2float(pair);
}

extern "C" void solve(const __half* in, float* out, int n) { pairs<<<1, 32>>>(in, out); }
