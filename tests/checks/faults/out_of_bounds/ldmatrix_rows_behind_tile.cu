// Fault: ldmatrix.x4 takes row addresses from all 32 lanes, but the tile has 16 rows: two of the matrices lie behind
// it.
// n = 128
#include <cuda_fp16.h>

constexpr int kRows = 16;

__global__ void fragments(const __half* in, float* out) {
  __shared__ alignas(16) __half tile[kRows * 8];
  const int lane = threadIdx.x;
  for (int i = lane; i < kRows * 8; i += 32) tile[i] = in[i];
  __syncwarp();
  const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile + lane * 8));
  unsigned m[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"  // expect: out_of_bounds
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(row));  // expect: out_of_bounds
  for (int j = 0; j < 4; ++j) out[j * 32 + lane] = __low2float(*reinterpret_cast<__half2*>(&m[j]));
}

extern "C" void solve(const __half* in, float* out, int n) { fragments<<<1, 32>>>(in, out); }
