// Fault: only the 8 lanes that give row addresses execute ldmatrix; the whole warp must, since all lanes get elements.
// n = 64
#include <cuda_fp16.h>

__global__ void fragment(const __half* in, float* out) {
  __shared__ alignas(16) __half tile[64];
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) tile[i] = in[i];
  __syncwarp();
  unsigned pair = 0;
  if (lane < 8) {
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile + lane * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"  // expect: invalid_shuffle
                 : "=r"(pair) : "r"(row));  // expect: invalid_shuffle
  }
  out[lane * 2] = out[lane * 2 + 1] = __low2float(*reinterpret_cast<__half2*>(&pair));
}

extern "C" void solve(const __half* in, float* out, int n) { fragment<<<1, 32>>>(in, out); }
