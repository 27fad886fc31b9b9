// FlashAttention forward, rung 5: bfloat16 on tensor cores, and the weights never leave their registers.
//
// Needs sm_80.
// Idea   mma.m16n8k16 multiplies a 16 x 16 tile A by a 16 x 8 tile B into a 16 x 8 tile of float32 sums, a warp
//        together: 2048 multiply-adds for one instruction and six operand registers a lane.
//        fragments  A warp owns 32 queries, two tiles A, so that each fragment of K or V serves twice. ldmatrix brings
//                   four 8 x 8 matrices from shared memory straight to the lanes that the product wants them in. In
//                   P V the keys are what is summed over, and V has them as rows: ldmatrix transposes on the way.
//        swizzle    ldmatrix reads eight rows of 16 bytes at once. Rows are 128 or 256 bytes apart, so that the same
//                   chunk of each lies in the same banks. Chunk c of row r is kept in place c ^ (r % 8) instead.
//        P          S = Q K^T leaves a lane columns 2i and 2i + 1 of rows r and r + 8 of every eight columns. That is
//                   how A wants its columns: two neighbouring tiles of S, exponentiated and rounded to bfloat16, are
//                   one A of P V. Nothing goes through shared memory.
// Cost   An H200 does 640 TFLOP/s by mma.sync (wgmma, with both operands in shared memory, does more). For 16
//        dimensions and 64 keys a warp reads 2 fragments of Q and 4 of K, 3 KB or 24 clocks of shared memory, and
//        multiplies for 27 clocks; P V reads none of P: 16 clocks for 27. Besides: waiting for global memory, storing
//        the tile, barriers, and softmax with a mask for every score, none of it beside the products.
// Gain   A tenth of rung 2's instructions for the products, half of its bytes.
// Measured  NVIDIA H200: heads_64_seq_4096_d128 1,893 us, 290 TFLOP/s (35 % of the speed of light);
//           heads_64_seq_4096_d128_causal 1,088 us, 253 TFLOP/s (30 % of the speed of light); heads_32_seq_4096_d64 633
//           us, 217 TFLOP/s (26 % of the speed of light). Score 18.9.
// Modelled  k and v once for every 128 rows (8.0 times for 1000), q and out once; out in 8 sectors a request where 4
//           would do; no bank conflicts.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRowTiles = 2;                // of 16 queries, a warp
constexpr int kWarpRows = 16 * kRowTiles;
constexpr int kRows = kWarps * kWarpRows;   // queries of a block
constexpr int kKeys = 64;                   // of a tile
constexpr int kChunk = 8;                   // elements in 16 bytes: one row of an 8 x 8 matrix
constexpr unsigned kAllLanes = 0xffffffffu;

using Element = __nv_bfloat16;

// Where chunk `chunk` of row `row` begins in a tile of D columns, in elements.
template <int D>
__device__ __forceinline__ int place(int row, int chunk) {
  return row * D + (chunk ^ row % 8) * kChunk;
}

template <int D>
struct Tiles {
  static_assert(D % 16 == 0 && D / kChunk >= 8, "the swizzle permutes eight chunks");
  Element queries[kRows * D];
  Element keys[kKeys * D];
  Element values[kKeys * D];
};

using Accumulator = float[4];  // rows r, r, r + 8, r + 8 and columns 2i, 2i + 1, 2i, 2i + 1; r = lane / 4, i = lane % 4
using Fragment = unsigned[4];  // four 8 x 8 matrices, two bfloat16 a register

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(Fragment& f, const Element* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(Fragment& f, const Element* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(shared_address(row))
               : "memory");
}

__device__ __forceinline__ void multiply_add(Accumulator& d, const Fragment& a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&both);
}

// The four lanes of a quad share a row of an accumulator.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// Rows first .. first + Rows - 1 of a head, zeros behind its last: a weight of zero times what lies there must be zero.
// A thread's chunks lie a multiple of eight rows apart, so that the swizzle is the same for all of them.
template <int D, int Rows>
__device__ __forceinline__ void load_tile(Element* to, const Element* __restrict__ from, int first, int seq_len) {
  constexpr int kChunks = D / kChunk, kStep = kThreads / kChunks;
  static_assert(kStep % 8 == 0 && Rows % kStep == 0, "");
  const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  Element* target = to + place<D>(row, chunk);
  const Element* source = from + static_cast<size_t>(first + row) * D + chunk * kChunk;
#pragma unroll
  for (int i = 0; i < Rows; i += kStep) {
    uint4 data = make_uint4(0, 0, 0, 0);
    if (first + row + i < seq_len) data = *reinterpret_cast<const uint4*>(source + i * D);
    *reinterpret_cast<uint4*>(target + i * D) = data;
  }
}

// S = Q K^T for this warp's queries and the tile's keys.
template <int D>
__device__ __forceinline__ void multiply_scores(Accumulator (&s)[kRowTiles][kKeys / 8], const Element* queries,
                                                const Element* keys) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[r][j][e] = 0.f;

#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    Fragment a[kRowTiles];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
      load_matrices(a[r], queries + place<D>(16 * r + lane % 16, 2 * d + lane / 16));
#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      Fragment b;  // keys 16 j .. + 7 in b[0], b[1], the next eight in b[2], b[3]
      load_matrices(b, keys + place<D>(16 * j + lane / 16 * 8 + lane % 8, 2 * d + lane / 8 % 2));
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_add(s[r][2 * j], a[r], b[0], b[1]);
        multiply_add(s[r][2 * j + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Scales the scores, hides keys that a query must not see, and turns scores into weights of the running maximum.
template <int D>
__device__ __forceinline__ void softmax(Accumulator (&s)[kRowTiles][kKeys / 8], Accumulator (&o)[kRowTiles][D / 8],
                                        float (&m)[kRowTiles][2], float (&l)[kRowTiles][2], int first_row,
                                        int first_key, int seq_len, float scale, bool causal) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * r + 8 * half + lane / 4;
      const int last_key = causal ? min(row, seq_len - 1) : seq_len - 1;
      float m_new = m[r][half];
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = s[r][j][2 * half + e];
          score = first_key + 8 * j + lane % 4 * 2 + e <= last_key ? score * scale : -INFINITY;
          m_new = fmaxf(m_new, score);
        }
      m_new = quad_max(m_new);  // finite: every row sees key 0, which is in the first tile

      const float correction = __expf(m[r][half] - m_new);
      m[r][half] = m_new;
      l[r][half] *= correction;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        o[r][d][2 * half] *= correction;
        o[r][d][2 * half + 1] *= correction;
      }
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& weight = s[r][j][2 * half + e];
          weight = __expf(weight - m_new);
          l[r][half] += weight;  // of this lane's columns; the quad's are added up at the end
        }
    }
}

// O += P V. Columns 16 j .. + 15 of P are the A of a product whose B is those rows of V.
template <int D>
__device__ __forceinline__ void multiply_values(Accumulator (&o)[kRowTiles][D / 8],
                                                const Accumulator (&p)[kRowTiles][kKeys / 8], const Element* values) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) {
    Fragment a[kRowTiles];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[r][i] = pack(p[r][2 * j + i / 2][i % 2 * 2], p[r][2 * j + i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      Fragment b;  // dimensions 16 d .. + 7 in b[0], b[1], the next eight in b[2], b[3]
      load_matrices_transposed(b, values + place<D>(16 * j + lane % 16, 2 * d + lane / 16));
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        multiply_add(o[r][2 * d], a[r], b[0], b[1]);
        multiply_add(o[r][2 * d + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Grid: (ceil(seq_len / kRows), batch_heads).
template <int D>
__global__ void __launch_bounds__(kThreads)
flash_mma(const Element* __restrict__ q, const Element* __restrict__ k, const Element* __restrict__ v,
          Element* __restrict__ out, int seq_len, float scale, bool causal) {
  extern __shared__ uint4 shared[];
  Tiles<D>& tiles = *reinterpret_cast<Tiles<D>*>(shared);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int block_row = blockIdx.x * kRows, warp_row = block_row + warp * kWarpRows;
  const size_t head = static_cast<size_t>(blockIdx.y) * seq_len * D;

  load_tile<D, kRows>(tiles.queries, q + head, block_row, seq_len);

  Accumulator o[kRowTiles][D / 8] = {};
  float m[kRowTiles][2], l[kRowTiles][2];  // of rows lane / 4 and lane / 4 + 8
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      m[r][half] = -INFINITY;
      l[r][half] = 0.f;
    }

  const int end = causal ? min(seq_len, block_row + kRows) : seq_len;
  for (int first = 0; first < end; first += kKeys) {
    load_tile<D, kKeys>(tiles.keys, k + head, first, seq_len);
    load_tile<D, kKeys>(tiles.values, v + head, first, seq_len);
    __syncthreads();  // the tile is complete (and, the first time, the queries)

    Accumulator s[kRowTiles][kKeys / 8];
    multiply_scores<D>(s, tiles.queries + warp * kWarpRows * D, tiles.keys);
    softmax<D>(s, o, m, l, warp_row, first, seq_len, scale, causal);
    multiply_values<D>(o, s, tiles.values);
    __syncthreads();  // nobody needs this tile any more
  }

#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1.f / quad_sum(l[r][half]);
      const int row = warp_row + 16 * r + 8 * half + lane / 4;
      if (row >= seq_len) continue;
      unsigned* target = reinterpret_cast<unsigned*>(out + head + static_cast<size_t>(row) * D) + lane % 4;
#pragma unroll
      for (int d = 0; d < D / 8; ++d)
        target[4 * d] = pack(o[r][d][2 * half] * inverse, o[r][d][2 * half + 1] * inverse);
    }
}

template <int D>
void launch(const Element* q, const Element* k, const Element* v, Element* out, int batch_heads, int seq_len,
            float scale, bool causal) {
  const dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  const int shared_bytes = static_cast<int>(sizeof(Tiles<D>));
  cudaFuncSetAttribute(flash_mma<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  flash_mma<D><<<grid, kThreads, shared_bytes>>>(q, k, v, out, seq_len, scale, causal);
}

extern "C" void solve(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out,
                      int batch_heads, int seq_len, int head_dim, float scale, int causal) {
  if (head_dim == 64)
    launch<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    launch<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
