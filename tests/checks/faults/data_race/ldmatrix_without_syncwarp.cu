// Fault: ldmatrix reads rows that other lanes have just stored, with no __syncwarp() between.
// n = 64
#include <cuda_fp16.h>

// One warp loads an 8 x 8 tile as a matrix fragment and writes the fragment's two elements a lane.
__global__ void fragment(const __half* in, float* out) {
  __shared__ alignas(16) __half tile[8 * 8];
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) tile[i] = in[i];  // other
  const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile + lane % 8 * 8));
  unsigned pair;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(pair) : "r"(row));  // expect: data_race
  const __half2 both = *reinterpret_cast<__half2*>(&pair);
  out[lane * 2] = __low2float(both);
  out[lane * 2 + 1] = __high2float(both);
}

extern "C" void solve(const __half* in, float* out, int n) { fragment<<<1, 32>>>(in, out); }
