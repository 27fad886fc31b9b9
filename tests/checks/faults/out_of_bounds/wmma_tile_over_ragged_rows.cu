// Fault: wmma loads whole tiles of 16 rows; the matrix has 24, so that the second tile reaches behind its end.
// n = 384
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// A warp for each tile of 16 rows of a [24, 16] matrix: its scores with the first 16 rows.
__global__ void scores(const __half* in, float* out) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> q;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> k;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
  __shared__ float tile[16 * 16];
  wmma::load_matrix_sync(k, in, 16);
  wmma::load_matrix_sync(q, in + blockIdx.x * 256, 16);  // expect: out_of_bounds
  wmma::fill_fragment(s, 0.f);
  wmma::mma_sync(s, q, k, s);
  wmma::store_matrix_sync(tile, s, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256 && blockIdx.x * 256 + i < 384; i += 32) out[blockIdx.x * 256 + i] = tile[i];
}

extern "C" void solve(const __half* in, float* out, int n) { scores<<<2, 32>>>(in, out); }
