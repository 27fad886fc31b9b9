// FlashAttention-2 forward on tensor cores: bfloat16 q, k, v [BH, N, 64], float out [BH, N, 64]. A block of four warps
// takes 64 query rows, a warp 16 of them; scores, softmax and output stay in registers in the layout of mma.m16n8k16.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int kHeadDim = 64;
constexpr int kRows = 64;   // queries of a block
constexpr int kKeys = 64;   // keys of a tile
constexpr int kWarps = kRows / 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kPitch = kHeadDim + 8;  // elements; rows are 144 bytes apart, so that ldmatrix meets no bank conflict
constexpr float kLog2e = 1.4426950408889634f;

using Tile = __nv_bfloat16[kRows][kPitch];

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p))
               : "memory");
}

__device__ __forceinline__ void multiply_add(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned packed(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

// Rows start .. start + 63 of one head, 16 bytes a thread at a time; zeros behind the last row.
__device__ void load_tile(Tile& tile, const __nv_bfloat16* __restrict__ from, int start, int n) {
  constexpr int kChunks = kHeadDim / 8;
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const bool there = start + row < n;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    const uint4* p = reinterpret_cast<const uint4*>(from + static_cast<size_t>(start + row) * kHeadDim + column);
    *reinterpret_cast<uint4*>(&tile[row][column]) = there ? *p : zero;
  }
}

__global__ void __launch_bounds__(kThreads)
flash_bf16(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
           const __nv_bfloat16* __restrict__ v, float* __restrict__ out, int n, float scale) {
  __shared__ alignas(16) Tile queries, keys, values;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const size_t head = static_cast<size_t>(blockIdx.y) * n * kHeadDim;
  const int first_row = blockIdx.x * kRows;

  load_tile(queries, q + head, first_row, n);
  __syncthreads();
  unsigned query[kHeadDim / 16][4];
#pragma unroll
  for (int d = 0; d < kHeadDim / 16; ++d)
    load_matrices(query[d], &queries[16 * warp + lane % 16][16 * d + lane / 16 * 8]);

  float acc[kHeadDim / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};  // of rows lane / 4 and lane / 4 + 8
  const float to_log2 = scale * kLog2e;

  for (int start = 0; start < n; start += kKeys) {
    load_tile(keys, k + head, start, n);
    load_tile(values, v + head, start, n);
    __syncthreads();

    float score[kKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d)
#pragma unroll
      for (int j = 0; j < kKeys / 16; ++j) {
        unsigned b[4];
        load_matrices(b, &keys[16 * j + lane % 8 + lane / 16 * 8][16 * d + lane / 8 % 2 * 8]);
        multiply_add(score[2 * j], query[d], b[0], b[1]);
        multiply_add(score[2 * j + 1], query[d], b[2], b[3]);
      }

#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float tile_max = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const bool hidden = start + 8 * j + lane % 4 * 2 + e >= n;
          float& s = score[j][2 * half + e];
          s = hidden ? -INFINITY : s * to_log2;
          tile_max = fmaxf(tile_max, s);
        }
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 1));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffff, tile_max, 2));
      const float new_max = fmaxf(row_max[half], tile_max);  // finite: every tile has a key
      const float shrink = exp2f(row_max[half] - new_max);
      row_max[half] = new_max;
      row_sum[half] *= shrink;
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j) {
        acc[j][2 * half] *= shrink;
        acc[j][2 * half + 1] *= shrink;
      }
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& s = score[j][2 * half + e];
          s = exp2f(s - new_max);
          row_sum[half] += s;  // of this thread's columns; the quad's are added at the end
        }
    }

#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      const unsigned p[4] = {packed(score[2 * j][0], score[2 * j][1]), packed(score[2 * j][2], score[2 * j][3]),
                             packed(score[2 * j + 1][0], score[2 * j + 1][1]),
                             packed(score[2 * j + 1][2], score[2 * j + 1][3])};
#pragma unroll
      for (int d = 0; d < kHeadDim / 16; ++d) {
        unsigned b[4];
        load_matrices_transposed(b, &values[16 * j + lane % 16][16 * d + lane / 16 * 8]);
        multiply_add(acc[2 * d], p, b[0], b[1]);
        multiply_add(acc[2 * d + 1], p, b[2], b[3]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = row_sum[half];
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    const int row = first_row + 16 * warp + lane / 4 + 8 * half;
    if (row >= n) continue;
    float* to = out + head + static_cast<size_t>(row) * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < kHeadDim / 8; ++d)
      *reinterpret_cast<float2*>(to + 8 * d) = make_float2(acc[d][2 * half] / sum, acc[d][2 * half + 1] / sum);
  }
}

extern "C" void solve(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, float* out,
                      int batch_heads, int seq_len, float scale) {
  const dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  flash_bf16<<<grid, kThreads>>>(q, k, v, out, seq_len, scale);
}
