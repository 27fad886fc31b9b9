// Fault: a score tile that wmma stored is read with no __syncwarp() between: its elements come from all lanes.
// n = 256
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// One warp: the scores of 16 rows with themselves.
__global__ void scores(const __half* in, float* out) {
  __shared__ float tile[16 * 16];
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> q;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> k;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
  wmma::load_matrix_sync(q, in, 16);
  wmma::load_matrix_sync(k, in, 16);
  wmma::fill_fragment(s, 0.f);
  wmma::mma_sync(s, q, k, s);
  wmma::store_matrix_sync(tile, s, 16, wmma::mem_row_major);  // other
  for (int i = threadIdx.x; i < 256; i += 32) out[i] = tile[i] * 0.25f;  // expect: data_race
}

extern "C" void solve(const __half* in, float* out, int n) { scores<<<1, 32>>>(in, out); }
