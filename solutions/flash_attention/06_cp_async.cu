// FlashAttention forward, rung 6: copies run ahead of the products, and softmax does less.
//
// Needs sm_80.
// Idea   In rung 5 tensor cores wait for global memory, for barriers and for softmax. Here:
//        cp.async  copies 16 bytes from global to shared memory with no register between, and the warp goes on. K and
//                  V have two buffers each: the next tile is on its way while this one is worked on. One barrier a
//                  tile, behind which all see the tile and nobody reads the other buffer any more.
//        mask      Only tiles across the diagonal or the last key look at indices. A warp skips those above its rows.
//        exp2      exp(scale (s - m)) = 2^(c s - c m) with c = scale log2(e): one multiply-add and one ex2.
//        maximum   m cancels between o and l, so any m near the largest score will do. A warp keeps its own as long as
//                  no score is beyond it by more than 8 in the exponent: no shuffles and no correction, only a vote.
//        overlap   Weights of 16 keys are made right before their product, so that ex2 of the next 16 runs beside it.
//                  Two blocks share a multiprocessor: one's softmax hides behind the other's products.
//        order     With the causal mask the last rows have most keys. Blocks take those first and the short ones
//                  fill the gaps at the end; a few heads at a time, so that their K and V stay in the L2 cache.
// Cost   For a tile of 64 keys and D = 128 a warp has 256 products, 1,700 clocks of its tensor core; beside them 980
//        instructions to issue, 64 ex2, 510 clocks, and its share of shared memory, 1,500. D = 64 halves all but
//        the softmax: 850 clocks of products, 650 instructions and still 510 of ex2.
// Gain   All of it beside one another would be 640 TFLOP/s. Two warps for each tensor core, which is what registers
//        allow, hide a part: expect 60 % of that for D = 128, 55 % for D = 64, half as fast again as rung 5 and more.
// Tried  For D = 64 queries kept in registers and a third buffer together are worth 3 %. No gain, or a loss: 8 warps
//        that share a tile; 16 or 48 rows a warp; scores of the next tile before this one's softmax; two groups of
//        warps half a tile apart; every fourth ex2 as a polynomial. Under lasting load the card draws its 700 W, and
//        its clock falls by a tenth.
// Measured  NVIDIA H200: heads_64_seq_4096_d128 1,368 us, 402 TFLOP/s (48 % of the speed of light);
//           heads_64_seq_4096_d128_causal 721 us, 382 TFLOP/s (46 % of the speed of light); heads_32_seq_4096_d64 390
//           us, 352 TFLOP/s (42 % of the speed of light). Score 32.2.
// Modelled  k and v once for every 128 rows (16 times for 2048, 8.5 if causal; for short sequences once for every 64),
//           q and out once, all in whole sectors; no bank conflicts.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kKeys = 64;  // of a tile
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kChunk = 8;                  // elements in 16 bytes: what cp.async copies, and a row for ldmatrix
constexpr int kChunkBytes = 16;
constexpr float kSlack = 8.f;              // a weight may be 2^8 before the maximum is raised
constexpr size_t kCachedBytes = 16 << 20;  // of the K and V that blocks work on at one time: well below 50 MB of L2
constexpr int kShort = 1024;               // keys; up to here a warp has 16 queries if 32 leave multiprocessors idle
constexpr float kLog2e = 1.44269504f;
constexpr unsigned kAllLanes = 0xffffffffu;

using Element = __nv_bfloat16;
using Accumulator = float[4];  // rows r, r, r + 8, r + 8 and columns 2i, 2i + 1, 2i, 2i + 1; r = lane / 4, i = lane % 4
using Fragment = unsigned[4];  // four 8 x 8 matrices, two bfloat16 a register

// Where chunk `chunk` of row `row` begins in a tile of D columns, in elements.
template <int D>
__device__ __forceinline__ int place(int row, int chunk) {
  return row * D + (chunk ^ row % 8) * kChunk;
}

// A warp has RowTiles times 16 queries.
template <int D, int RowTiles>
struct Tiles {
  static_assert(D % 16 == 0 && D / kChunk >= 8, "the swizzle permutes eight chunks");
  static constexpr int kWarpRows = 16 * RowTiles;
  static constexpr int kRows = kWarps * kWarpRows;  // of a block
  Element queries[kRows * D];                       // at the end the output
  Element keys[2][kKeys * D];
  Element values[2][kKeys * D];
};

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The address of chunk c + 2 d in row r + rows, from that of chunk c < 2 in row r; rows is a multiple of eight. Tiles
// begin at multiples of 256 bytes, so the swizzle only flips bits of an address, and so does this step of it:
// (c + 2 d) ^ r = 2 d ^ (c ^ r). To keep an address for each d would cost registers.
template <int D>
__device__ __forceinline__ unsigned step(unsigned address, int rows, int d) {
  return (address ^ 2 * d * kChunkBytes) + rows * (D / kChunk) * kChunkBytes;
}

// Lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(Fragment& f, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(Fragment& f, unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(row)
               : "memory");
}

__device__ __forceinline__ void multiply_add(Accumulator& d, const Fragment& a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 2^x as the hardware has it; exp2f() would first scale denormal results, which are zero here.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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

// Starts to copy rows first .. first + Rows - 1 of a head; zeros behind its last row. A thread's chunks lie a multiple
// of eight rows apart, so that the swizzle is the same for all of them.
template <int D, int Rows>
__device__ __forceinline__ void copy_tile(Element* to, const Element* __restrict__ from, int first, int seq_len) {
  constexpr int kChunks = D / kChunk, kStep = kThreads / kChunks;
  static_assert(kStep % 8 == 0 && Rows % kStep == 0, "");
  const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  const unsigned target = shared_address(to + place<D>(row, chunk));
  const Element* source = from + static_cast<size_t>(first + row) * D + chunk * kChunk;
#pragma unroll
  for (int i = 0; i < Rows; i += kStep) {
    const int bytes = first + row + i < seq_len ? kChunkBytes : 0;  // to read; zeros for the rest
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target + i * (D / kChunk) * kChunkBytes),
                 "l"(source + i * D), "r"(bytes)
                 : "memory");
  }
}

// Until those of this thread are complete.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What a lane knows of its warp's queries; [2] is of rows lane / 4 and lane / 4 + 8 of 16.
template <int D, int RowTiles>
struct State {
  Accumulator o[RowTiles][D / 8];
  float m[RowTiles][2];   // near the largest score
  float cm[RowTiles][2];  // c * m
  float l[RowTiles][2];   // sum of this lane's weights
};

template <int RowTiles>
using Scores = Accumulator[RowTiles][kKeys / 8];

// S = Q K^T for this warp's queries and the tile's keys.
template <int D, int RowTiles>
__device__ __forceinline__ void multiply_scores(Scores<RowTiles>& s, unsigned queries, unsigned keys) {
#pragma unroll
  for (int r = 0; r < RowTiles; ++r)
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[r][j][e] = 0.f;

#pragma unroll
  for (int d = 0; d < D / 16; ++d) {
    Fragment a[RowTiles];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) load_matrices(a[r], step<D>(queries, 16 * r, d));
#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      Fragment b;  // keys 16 j .. + 7 in b[0], b[1], the next eight in b[2], b[3]
      load_matrices(b, step<D>(keys, 16 * j, d));
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        multiply_add(s[r][2 * j], a[r], b[0], b[1]);
        multiply_add(s[r][2 * j + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Hides keys behind the last one, and with `causal` those behind a row's own.
template <int RowTiles>
__device__ __forceinline__ void mask(Scores<RowTiles>& s, int warp_row, int first_key, int seq_len, bool causal) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp_row + 16 * r + 8 * half + lane / 4;
      const int last_key = causal ? min(row, seq_len - 1) : seq_len - 1;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (first_key + 8 * j + lane % 4 * 2 + e > last_key) s[r][j][2 * half + e] = -INFINITY;
    }
}

// Raises m where a score of the warp is beyond it by more than `slack`. Always so in the first tile, where m is
// -infinity; every row sees its key 0, so that m is finite from then on.
template <int D, int RowTiles>
__device__ __forceinline__ void raise_maximum(State<D, RowTiles>& state, const Scores<RowTiles>& s, float c,
                                              float slack) {
  float largest[RowTiles][2];  // of this lane's scores
  bool beyond = false;
#pragma unroll
  for (int r = 0; r < RowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      largest[r][half] = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j)
        largest[r][half] = fmaxf(largest[r][half], fmaxf(s[r][j][2 * half], s[r][j][2 * half + 1]));
      beyond |= largest[r][half] > state.m[r][half] + slack;
    }
  if (!__any_sync(kAllLanes, beyond)) return;

#pragma unroll
  for (int r = 0; r < RowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float m_new = quad_max(fmaxf(state.m[r][half], largest[r][half]));
      const float correction = exp2_approximate(c * (state.m[r][half] - m_new));
      state.m[r][half] = m_new;
      state.cm[r][half] = c * m_new;
      state.l[r][half] *= correction;
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        state.o[r][d][2 * half] *= correction;
        state.o[r][d][2 * half + 1] *= correction;
      }
    }
}

// Weights of keys 16 j .. + 15 as the A of P V.
template <int D, int RowTiles>
__device__ __forceinline__ void exponentiate(Fragment& a, State<D, RowTiles>& state, const Scores<RowTiles>& s, int r,
                                             int j, float c) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int half = i % 2;
    const Accumulator& from = s[r][2 * j + i / 2];
    const float low = exp2_approximate(c * from[2 * half] - state.cm[r][half]);
    const float high = exp2_approximate(c * from[2 * half + 1] - state.cm[r][half]);
    state.l[r][half] += low;
    state.l[r][half] += high;
    a[i] = pack(low, high);
  }
}

// O += P V.
template <int D, int RowTiles>
__device__ __forceinline__ void multiply_values(State<D, RowTiles>& state, const Scores<RowTiles>& s, unsigned values,
                                                float c) {
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) {
    Fragment a[RowTiles];
#pragma unroll
    for (int r = 0; r < RowTiles; ++r) exponentiate(a[r], state, s, r, j, c);
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      Fragment b;  // dimensions 16 d .. + 7 in b[0], b[1], the next eight in b[2], b[3]
      load_matrices_transposed(b, step<D>(values, 16 * j, d));
#pragma unroll
      for (int r = 0; r < RowTiles; ++r) {
        multiply_add(state.o[r][2 * d], a[r], b[0], b[1]);
        multiply_add(state.o[r][2 * d + 1], a[r], b[2], b[3]);
      }
    }
  }
}

// Normalises o and writes it, through the warp's own part of shared memory: whole rows of 16-byte chunks.
template <int D, int RowTiles>
__device__ __forceinline__ void write_rows(Element* __restrict__ out, const State<D, RowTiles>& state, Element* buffer,
                                           int warp_row, int seq_len) {
  constexpr int kChunks = D / kChunk;
  const int lane = threadIdx.x % kWarp;
  __syncwarp();  // no lane reads the queries any more
#pragma unroll
  for (int r = 0; r < RowTiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float inverse = 1.f / quad_sum(state.l[r][half]);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) {
        const int to = place<D>(16 * r + 8 * half + lane / 4, d) + lane % 4 * 2;
        *reinterpret_cast<unsigned*>(buffer + to) =
            pack(state.o[r][d][2 * half] * inverse, state.o[r][d][2 * half + 1] * inverse);
      }
    }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * RowTiles * kChunks; i += kWarp) {
    const int row = (i + lane) / kChunks, chunk = (i + lane) % kChunks;
    if (warp_row + row >= seq_len) break;
    uint4* target = reinterpret_cast<uint4*>(out + static_cast<size_t>(warp_row + row) * D + chunk * kChunk);
    *target = *reinterpret_cast<const uint4*>(buffer + place<D>(row, chunk));
  }
}

struct Work {
  int head, row_block;
};

// `heads_together` heads at a time; their last rows first if these have the most keys.
__device__ __forceinline__ Work work_of(int block, int batch_heads, int row_blocks, int heads_together, bool causal) {
  const int first_head = block / (row_blocks * heads_together) * heads_together;
  const int heads = min(heads_together, batch_heads - first_head);
  const int i = block - first_head * row_blocks;
  const int row_block = i / heads;
  return {first_head + i % heads, causal ? row_blocks - 1 - row_block : row_block};
}

// Grid: batch_heads * row_blocks.
template <int D, int RowTiles>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
flash_pipelined(const Element* __restrict__ q, const Element* __restrict__ k, const Element* __restrict__ v,
                Element* __restrict__ out, int batch_heads, int seq_len, int row_blocks, int heads_together, float c,
                bool causal) {
  using T = Tiles<D, RowTiles>;
  extern __shared__ __align__(256) unsigned char shared[];
  T& tiles = *reinterpret_cast<T*>(shared);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const Work work = work_of(blockIdx.x, batch_heads, row_blocks, heads_together, causal);
  const int block_row = work.row_block * T::kRows, warp_row = block_row + warp * T::kWarpRows;
  const size_t head = static_cast<size_t>(work.head) * seq_len * D;
  const int end = causal ? min(seq_len, block_row + T::kRows) : seq_len;
  const int warp_end = causal ? min(seq_len, warp_row + T::kWarpRows) : seq_len;

  copy_tile<D, T::kRows>(tiles.queries, q + head, block_row, seq_len);
  copy_tile<D, kKeys>(tiles.keys[0], k + head, 0, seq_len);
  copy_tile<D, kKeys>(tiles.values[0], v + head, 0, seq_len);

  // What this lane gives to ldmatrix in the first buffers.
  Element* own = tiles.queries + warp * T::kWarpRows * D;
  const unsigned queries = shared_address(own + place<D>(lane % 16, lane / 16));
  const unsigned keys = shared_address(tiles.keys[0] + place<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2));
  const unsigned values = shared_address(tiles.values[0] + place<D>(lane % 16, lane / 16));

  State<D, RowTiles> state = {};
#pragma unroll
  for (int r = 0; r < RowTiles; ++r) state.m[r][0] = state.m[r][1] = -INFINITY;
  const float slack = kSlack / c;  // in units of a score

  int stage = 0;
  auto attend = [&](int first, bool masked) {
    wait_for_copies();
    __syncthreads();  // all have this tile, and nobody reads the one before any more
    if (first + kKeys < end) {
      copy_tile<D, kKeys>(tiles.keys[stage ^ 1], k + head, first + kKeys, seq_len);
      copy_tile<D, kKeys>(tiles.values[stage ^ 1], v + head, first + kKeys, seq_len);
    }
    if (!masked || first < warp_end) {
      const unsigned offset = stage * sizeof(tiles.keys[0]);
      Scores<RowTiles> s;
      multiply_scores<D, RowTiles>(s, queries, keys + offset);
      if (masked) mask<RowTiles>(s, warp_row, first, seq_len, causal);
      raise_maximum(state, s, c, slack);
      multiply_values(state, s, values + offset, c);
    }
    stage ^= 1;
  };
  // Two loops, so that the long one has no trace of masks.
  const int unmasked = (causal ? min(seq_len, block_row + 1) : seq_len) / kKeys * kKeys;
#pragma unroll 1
  for (int first = 0; first < unmasked; first += kKeys) attend(first, false);
#pragma unroll 1
  for (int first = unmasked; first < end; first += kKeys) attend(first, true);
  write_rows(out + head, state, own, warp_row, seq_len);
}

template <int D, int RowTiles>
void launch(const Element* q, const Element* k, const Element* v, Element* out, int batch_heads, int seq_len,
            float scale, bool causal) {
  constexpr int kRows = Tiles<D, RowTiles>::kRows;
  const int row_blocks = (seq_len + kRows - 1) / kRows;
  const size_t head_bytes = static_cast<size_t>(seq_len) * D * sizeof(Element) * 2;
  const int fit = head_bytes < kCachedBytes ? static_cast<int>(kCachedBytes / head_bytes) : 1;
  const int heads_together = fit < batch_heads ? fit : batch_heads;
  const int shared_bytes = static_cast<int>(sizeof(Tiles<D, RowTiles>));
  cudaFuncSetAttribute(flash_pipelined<D, RowTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  flash_pipelined<D, RowTiles><<<batch_heads * row_blocks, kThreads, shared_bytes>>>(
      q, k, v, out, batch_heads, seq_len, row_blocks, heads_together, scale * kLog2e, causal);
}

template <int D>
void launch_rows(const Element* q, const Element* k, const Element* v, Element* out, int batch_heads, int seq_len,
                 float scale, bool causal) {
  constexpr int kRows = Tiles<D, 2>::kRows;
  int multiprocessors = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  const bool few_blocks = (seq_len + kRows - 1) / kRows * batch_heads < multiprocessors;
  if (few_blocks && seq_len <= kShort)
    launch<D, 1>(q, k, v, out, batch_heads, seq_len, scale, causal);
  else
    launch<D, 2>(q, k, v, out, batch_heads, seq_len, scale, causal);
}

extern "C" void solve(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out,
                      int batch_heads, int seq_len, int head_dim, float scale, int causal) {
  if (head_dim == 64)
    launch_rows<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    launch_rows<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
