// Fault: rows of a half tile are padded by one element: ldmatrix needs every row at a multiple of 16 bytes.
// n = 64
#include <cuda_fp16.h>

constexpr int kStride = 9;

__global__ void fragment(const __half* in, float* out) {
  __shared__ alignas(16) __half tile[8 * kStride];
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) tile[i / 8 * kStride + i % 8] = in[i];
  __syncwarp();
  const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile + lane % 8 * kStride));
  unsigned pair;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(pair) : "r"(row));  // expect: misaligned
  const __half2 both = *reinterpret_cast<__half2*>(&pair);
  out[lane * 2] = __low2float(both);
  out[lane * 2 + 1] = __high2float(both);
}

extern "C" void solve(const __half* in, float* out, int n) { fragment<<<1, 32>>>(in, out); }
