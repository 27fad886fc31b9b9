// FlashAttention forward with <mma.h>: half q, k, v [BH, N, 64], float out [BH, N, 64]. wmma does not say which thread
// holds what, so scores and the output pass through shared memory; each warp works on its own 16 query rows of a block
// of 64 and meets the others only around the tiles of K and V.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kHeadDim = 64;
constexpr int kRows = 64;  // queries of a block
constexpr int kKeys = 32;  // keys of a tile
constexpr int kWarps = kRows / 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kPitch = kHeadDim + 8;       // halves
constexpr int kFloatPitch = kHeadDim + 4;  // floats
constexpr int kScorePitch = kKeys + 8;     // halves or floats

// What one warp keeps between its steps.
struct __align__(32) Strip {
  float out[16][kFloatPitch];
  float score[16][kScorePitch];
  __half weight[16][kScorePitch];
};

struct __align__(32) Shared {
  __half queries[kRows][kPitch], keys[kKeys][kPitch], values[kKeys][kPitch];
  Strip strip[kWarps];
};

template <int Rows>
__device__ void load_tile(__half (&tile)[Rows][kPitch], const __half* __restrict__ from, int start, int n) {
  constexpr int kChunks = kHeadDim / 8;
  for (int i = threadIdx.x; i < Rows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * 8;
    uint4 chunk = make_uint4(0, 0, 0, 0);
    if (start + row < n)
      chunk = *reinterpret_cast<const uint4*>(from + static_cast<size_t>(start + row) * kHeadDim + column);
    *reinterpret_cast<uint4*>(&tile[row][column]) = chunk;
  }
}

// score = queries of this warp times the tile's keys.
__device__ void multiply_scores(Strip& mine, const __half (*queries)[kPitch], const __half (*keys)[kPitch]) {
  for (int j = 0; j < kKeys / 16; ++j) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.f);
    for (int d = 0; d < kHeadDim; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
      wmma::load_matrix_sync(a, &queries[0][d], kPitch);
      wmma::load_matrix_sync(b, &keys[16 * j][d], kPitch);
      wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(&mine.score[0][16 * j], sum, kScorePitch, wmma::mem_row_major);
  }
}

// out += weights of this warp times the tile's values.
__device__ void multiply_values(Strip& mine, const __half (*values)[kPitch]) {
  for (int d = 0; d < kHeadDim; d += 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(sum, &mine.out[0][d], kFloatPitch, wmma::mem_row_major);
    for (int j = 0; j < kKeys; j += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
      wmma::load_matrix_sync(a, &mine.weight[0][j], kScorePitch);
      wmma::load_matrix_sync(b, &values[j][d], kPitch);
      wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(&mine.out[0][d], sum, kFloatPitch, wmma::mem_row_major);
  }
}

__global__ void __launch_bounds__(kThreads)
flash_wmma(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
           float* __restrict__ out, int n, float scale) {
  extern __shared__ __align__(32) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = lane / 2, half = lane % 2;  // two threads for a row of the strip, in turns of two elements
  const size_t head = static_cast<size_t>(blockIdx.y) * n * kHeadDim;
  const int first_row = blockIdx.x * kRows;
  Strip& mine = s.strip[warp];

  load_tile(s.queries, q + head, first_row, n);
  for (int d = half; d < kHeadDim; d += 2) mine.out[row][d] = 0.f;
  float row_max = -INFINITY, row_sum = 0.f;

  for (int start = 0; start < n; start += kKeys) {
    load_tile(s.keys, k + head, start, n);
    load_tile(s.values, v + head, start, n);
    __syncthreads();

    multiply_scores(mine, &s.queries[16 * warp], s.keys);
    __syncwarp();

    float tile_max = -INFINITY;
    for (int j = half; j < kKeys && start + j < n; j += 2) tile_max = fmaxf(tile_max, mine.score[row][j] * scale);
    tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 1));
    const float new_max = fmaxf(row_max, tile_max);
    const float shrink = __expf(row_max - new_max);
    row_sum *= shrink;
    for (int j = half; j < kKeys; j += 2) {
      const float weight = start + j < n ? __expf(mine.score[row][j] * scale - new_max) : 0.f;
      mine.weight[row][j] = __float2half(weight);
      row_sum += weight;
    }
    for (int d = half; d < kHeadDim; d += 2) mine.out[row][d] *= shrink;
    row_max = new_max;
    __syncwarp();

    multiply_values(mine, s.values);
    __syncthreads();
  }

  row_sum += __shfl_xor_sync(0xffffffff, row_sum, 1);
  const int query = first_row + 16 * warp + row;
  if (query >= n) return;
  for (int d = half; d < kHeadDim; d += 2)
    out[head + static_cast<size_t>(query) * kHeadDim + d] = mine.out[row][d] / row_sum;
}

extern "C" void solve(const __half* q, const __half* k, const __half* v, float* out, int batch_heads, int seq_len,
                      float scale) {
  cudaFuncSetAttribute(flash_wmma, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared));
  const dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  flash_wmma<<<grid, kThreads, sizeof(Shared)>>>(q, k, v, out, seq_len, scale);
}
