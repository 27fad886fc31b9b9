// Clean: 16-byte groups of a half tile are swizzled by row; ldmatrix.trans takes each row from where it lies.
// n = 512
#include <cuda_fp16.h>

__global__ void fragments(const __half* in, float* out) {
  __shared__ uint4 tile[8 * 8];  // 8 rows of 64 halves
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) {
    const int row = i / 8, group = i % 8;
    tile[row * 8 + (group ^ row)] = reinterpret_cast<const uint4*>(in)[i];
  }
  __syncwarp();
  for (int group = 0; group < 8; ++group) {
    const int row = lane % 8;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(&tile[row * 8 + (group ^ row)]));
    unsigned pair;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(pair) : "r"(address));
    const __half2 both = *reinterpret_cast<__half2*>(&pair);
    out[group * 64 + lane * 2] = __low2float(both);
    out[group * 64 + lane * 2 + 1] = __high2float(both);
  }
}

extern "C" void solve(const __half* in, float* out, int n) { fragments<<<1, 32>>>(in, out); }
