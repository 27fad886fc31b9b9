// FlashAttention forward, rung 4: tensor cores, and float32's accuracy all the same.
//
// Needs sm_80.
// Idea   Tensor cores multiply float32 only after cutting its 24 bits to the 11 of TF32, thousands of times beyond the
//        judge's limits. So a number goes in as two: x = big + small, the 11 bits that are kept and what they leave
//        over, and x * y = small * big + big * small + big * big: three products (3xTF32), of which the fourth,
//        small * small, is below float32's own rounding. Splitting costs two instructions, and is done when operands
//        have come to registers: the parts would be twice the fetches.
//        Scores are S = Q K^T, 16 x 8 at a time. For the output the transposed product is taken, O^T = V^T P^T: what
//        a lane then has to supply of P is what it holds of S. The order of the numbers summed over, and of the rows
//        of a matrix, is free as long as both sides agree: it is chosen so that lanes fetch two or four numbers in a
//        row, in the order in which mma.sync takes them.
//        Its sums are cut, not rounded, at each step. A tile's share of the output starts from zero and is added to
//        the rest by an ordinary multiply-add, which scales that to the new maximum as well.
// Cost   mma.sync.m16n8k8 of TF32 runs at 313 TFLOP/s on an H200, so 104 if nothing else were done; most of what else
//        is done adds to that time, as measured, rather than hide in it. A warp has 32 rows, so that two numbers of K
//        split serve 6 products, and four of V 12. For D = 128 a tile of 32 keys is 768 products a warp, 832
//        instructions that split, 160 fetches and some 500 of softmax and scaling. O, S and operands fill 255
//        registers: 8 warps on an SM. Cutting, not rounding, to TF32 saves an instruction of three a split.
// Gain   104 of products against 67 of multiply-adds: up to half as fast again as rung 3, and more, as that reaches
//        two thirds of its bound.
// Measured  NVIDIA H200: heads_64_seq_4096_d128 7,974 us, 69 TFLOP/s (47 % of the speed of light);
//           heads_64_seq_4096_d128_causal 3,994 us, 69 TFLOP/s (47 % of the speed of light); heads_32_seq_4096_d64
//           1,993 us, 69 TFLOP/s (47 % of the speed of light). Score 31.7.
// Modelled  k and v once for every 128 rows (8.0 times for 1000, about half of it if causal), q and out once; no bank
//           conflicts.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kBlocksPerSm = 2;
constexpr int kSquare = 8;                // of a matrix: what a product takes of its second factor
constexpr int kTall = 2 * kSquare;        // rows of the first factor
constexpr int kTalls = 2;                 // of rows of Q, to a warp
constexpr int kRowsPerWarp = kTalls * kTall;
constexpr int kRows = kWarps * kRowsPerWarp;  // of a block
constexpr int kRowSquares = kRowsPerWarp / kSquare;
constexpr float kLog2E = 1.44269504f;

// Paddings: the fetches of a warp, which the functions below do, meet no bank of shared memory twice.
template <int D>
struct Tile {
  static constexpr int kKeys = D == 64 ? 64 : 32;  // less for D = 128, for the registers' sake
  static constexpr int kKeySquares = kKeys / kSquare;

  float queries[kRows / 2][2 * D + 16];  // two rows interleaved: q[2 r][d], q[2 r + 1][d], q[2 r][d + 1], ...
  float keys[kKeys][D + 8];
  float values[kKeys][D + 4];
};

// What a lane supplies to a product: of the first factor numbers (a, b), (a + 8, b), (a, b + 4), (a + 8, b + 4) where
// a = lane / 4 and b = lane % 4, of the second (b, a), (b + 4, a). It gets (a, 2 b), (a, 2 b + 1), (a + 8, 2 b),
// (a + 8, 2 b + 1). (PTX ISA, "Matrix fragments for mma.m16n8k8".) Here number b of those summed over stands for the
// 2 b-th of eight dimensions or keys, number b + 4 for the next.
template <int N>
struct Fragment {
  float big[N], small[N];

  // TF32 is a float whose last 13 bits are ignored: of `big` the product takes what `small` was formed with.
  __device__ __forceinline__ void set(int i, float x) {
    big[i] = x;
    small[i] = x - __uint_as_float(__float_as_uint(x) & 0xffffe000u);
  }
};
using First = Fragment<4>;
using Second = Fragment<2>;
using Sum = float[4];

__device__ __forceinline__ void multiply_tf32(const float (&a)[4], const float (&b)[2], Sum& c) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// The small ones first, as long as the sum is small.
__device__ __forceinline__ void multiply(const First& a, const Second& b, Sum& c) {
  multiply_tf32(a.small, b.big, c);
  multiply_tf32(a.big, b.small, c);
  multiply_tf32(a.big, b.big, c);
}

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Bytes on their way into shared memory, zeros for what is not valid.
template <int Bytes>
__device__ __forceinline__ void copy_async(float* to, const float* from, bool valid) {
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = valid ? Bytes : 0;
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <int D, int Rows, int Stride>
__device__ __forceinline__ void copy_rows(float (&to)[Rows][Stride], const float* from, int valid_rows) {
  constexpr int kPack = 4, kPacks = D / kPack;
#pragma unroll 4
  for (int i = threadIdx.x; i < Rows * kPacks; i += kThreads) {
    const int row = i / kPacks, column = i % kPacks * kPack;
    const bool valid = row < valid_rows;
    copy_async<16>(&to[row][column], valid ? from + static_cast<size_t>(row) * D + column : from, valid);
  }
}

// Rows of Q, interleaved: 16 numbers of a row and the same of the next by every warp at a time.
template <int D>
__device__ __forceinline__ void copy_queries(Tile<D>& tile, const float* from, int valid_rows) {
#pragma unroll 8
  for (int i = threadIdx.x; i < kRows * D; i += kThreads) {
    const int pair = i / (2 * D), place = i % (2 * D);
    const int row = 2 * pair + place % 2, column = place / 2;
    const bool valid = row < valid_rows;
    copy_async<4>(&tile.queries[pair][place], valid ? from + static_cast<size_t>(row) * D + column : from, valid);
  }
}

// Rows 2 a and 2 a + 1 of the 16 from `row` on, as rows a and a + 8 of the product's.
template <int D>
__device__ __forceinline__ First load_queries(const Tile<D>& tile, int row, int dim, int a, int b) {
  const float4 x = *reinterpret_cast<const float4*>(&tile.queries[row / 2 + a][2 * (dim + 2 * b)]);
  First q;
  q.set(0, x.x);
  q.set(1, x.y);
  q.set(2, x.z);
  q.set(3, x.w);
  return q;
}

template <int D>
__device__ __forceinline__ Second load_keys(const Tile<D>& tile, int key, int dim, int a, int b) {
  const float2 x = *reinterpret_cast<const float2*>(&tile.keys[key + a][dim + 2 * b]);
  Second k;
  k.set(0, x.x);
  k.set(1, x.y);
  return k;
}

// Dimensions 2 a and 2 a + 1 of the 16 from `dim` on, as rows a and a + 8 of V^T.
template <int D>
__device__ __forceinline__ First load_values(const Tile<D>& tile, int key, int dim, int a, int b) {
  First v;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float2 x = *reinterpret_cast<const float2*>(&tile.values[key + 2 * b + i][dim + 2 * a]);
    v.set(2 * i, x.x);
    v.set(2 * i + 1, x.y);
  }
  return v;
}

// Of a warp. s[i][j] are rows 16 i ... 16 i + 15 by keys 8 j ... 8 j + 7: a lane's are, by half h, row 16 i + 2 a + h,
// in numbers 2 h and 2 h + 1 keys 8 j + 2 b and the next.
template <int D>
using Scores = Sum[kTalls][Tile<D>::kKeySquares];

// What a lane keeps from tile to tile.
template <int D>
struct State {
  Sum o[D / kTall][kRowSquares];  // O^T: dimensions 16 n + 2 a and the next, by row_of_output() 0 and 1
  float m[kTalls][2];             // largest score of a row so far, times log2(e)
  float l[kTalls][2];             // sum of a row's weights, of its own keys: four lanes add theirs up at the end
};

// Square 2 i + h of O^T's columns are rows 16 i + h, 16 i + h + 2, ... of the warp. A lane has columns 2 b and 2 b + 1.
__device__ __forceinline__ int row_of_output(int square, int b, int x) {
  return square / 2 * kTall + square % 2 + 2 * (2 * b + x);
}

template <int D>
__device__ __forceinline__ void multiply_keys(const Tile<D>& tile, int warp_row, int a, int b, Scores<D>& s) {
#pragma unroll 2
  for (int d = 0; d < D; d += kSquare) {
    First q[kTalls];
#pragma unroll
    for (int i = 0; i < kTalls; ++i) q[i] = load_queries(tile, warp_row + i * kTall, d, a, b);
#pragma unroll
    for (int j = 0; j < Tile<D>::kKeySquares; ++j) {
      const Second k = load_keys(tile, j * kSquare, d, a, b);
#pragma unroll
      for (int i = 0; i < kTalls; ++i) multiply(q[i], k, s[i][j]);
    }
  }
}

// Keys that a row does not see. `row` and `key` are the first of the warp and of the tile.
template <int D>
__device__ __forceinline__ void mask(int row, int key, int seq_len, bool causal, int a, int b, Scores<D>& s) {
#pragma unroll
  for (int i = 0; i < kTalls; ++i)
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int seen = causal ? min(seq_len, row + i * kTall + 2 * a + n / 2 + 1) : seq_len;
#pragma unroll
      for (int j = 0; j < Tile<D>::kKeySquares; ++j)
        if (key + j * kSquare + 2 * b + n % 2 >= seen) s[i][j][n] = -INFINITY;
    }
}

// One row's scores become weights exp(scale * (s - m)), as powers of two: `factor` is scale * log2(e). m is finite:
// every row sees key 0, which is in the first tile. Returns what the row's output so far is to be multiplied by.
template <int Squares>
__device__ __forceinline__ float softmax_row(int h, float factor, Sum (&s)[Squares], float& m, float& l) {
  float largest = -INFINITY;
#pragma unroll
  for (int j = 0; j < Squares; ++j) largest = fmaxf(largest, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  const float m_new = fmaxf(m, largest * factor);
  const float correction = exp2_fast(m - m_new);
  m = m_new;
  l *= correction;
#pragma unroll
  for (int j = 0; j < Squares; ++j)
#pragma unroll
    for (int n = 2 * h; n < 2 * h + 2; ++n) {
      s[j][n] = exp2_fast(s[j][n] * factor - m_new);
      l += s[j][n];
    }
  return correction;
}

// A number for each of a lane's rows of S, as the lanes that have these rows in O^T need it.
__device__ __forceinline__ void exchange_rows(const float (&from)[kTalls][2], int b, float (&to)[kRowSquares][2]) {
#pragma unroll
  for (int i = 0; i < kRowSquares; ++i)
#pragma unroll
    for (int x = 0; x < 2; ++x) to[i][x] = __shfl_sync(~0u, from[i / 2][i % 2], 4 * (2 * b + x));
}

// o = o * correction + weights * values.
template <int D>
__device__ __forceinline__ void add_values(const Tile<D>& tile, const Scores<D>& s,
                                           const float (&correction)[kRowSquares][2], int a, int b,
                                           State<D>& state) {
#pragma unroll
  for (int n = 0; n < D / kTall; ++n) {
    Sum fresh[kRowSquares] = {};
#pragma unroll
    for (int j = 0; j < Tile<D>::kKeySquares; ++j) {
      const First v = load_values(tile, j * kSquare, n * kTall, a, b);
#pragma unroll
      for (int i = 0; i < kRowSquares; ++i) {
        Second p;
        p.set(0, s[i / 2][j][i % 2 * 2]);
        p.set(1, s[i / 2][j][i % 2 * 2 + 1]);
        multiply(v, p, fresh[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kRowSquares; ++i)
#pragma unroll
      for (int x = 0; x < 4; ++x)
        state.o[n][i][x] = state.o[n][i][x] * correction[i][x % 2] + fresh[i][x];
  }
}

// `out` is the warp's first row, `rows` how many there are from it on.
template <int D>
__device__ __forceinline__ void store(float* out, int rows, int a, int b, const State<D>& state) {
  float inverse[kTalls][2], factor[kRowSquares][2];
#pragma unroll
  for (int i = 0; i < kRowSquares; ++i) {
    float sum = state.l[i / 2][i % 2];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[i / 2][i % 2] = 1.f / sum;
  }
  exchange_rows(inverse, b, factor);
#pragma unroll
  for (int i = 0; i < kRowSquares; ++i)
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int row = row_of_output(i, b, x);
      if (row >= rows) continue;
      float* target = out + row * D + 2 * a;
#pragma unroll
      for (int n = 0; n < D / kTall; ++n)
        *reinterpret_cast<float2*>(target + n * kTall) =
            make_float2(state.o[n][i][x] * factor[i][x], state.o[n][i][2 + x] * factor[i][x]);
    }
}

// Grid: (batch_heads, ceil(seq_len / kRows)). The last rows of all heads, which see most keys, begin first, and short
// ones fill the end: with the rows of one head after the other, causal attention is up to a fifth slower.
template <int D>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
flash_3xtf32(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
             float* __restrict__ out, int seq_len, float scale, bool causal) {
  extern __shared__ float4 shared[];
  Tile<D>& tile = *reinterpret_cast<Tile<D>*>(shared);

  const int a = threadIdx.x % kWarp / 4, b = threadIdx.x % 4;
  const int warp_row = threadIdx.x / kWarp * kRowsPerWarp;
  const int block_row = (gridDim.y - 1 - blockIdx.y) * kRows;
  const int row = block_row + warp_row;
  const size_t head = static_cast<size_t>(blockIdx.x) * seq_len * D;
  copy_queries(tile, q + head + static_cast<size_t>(block_row) * D, seq_len - block_row);
  copy_rows<D>(tile.keys, k + head, seq_len);

  State<D> state = {};
#pragma unroll
  for (int i = 0; i < kRowSquares; ++i) state.m[i / 2][i % 2] = -INFINITY;

  const int block_end = causal ? min(seq_len, block_row + kRows) : seq_len;  // keys that some row of the block sees
  const int warp_end = causal ? row + kRowsPerWarp : seq_len;                // that some row of the warp sees
  const int all_see = causal ? min(seq_len, row + 1) : seq_len;              // that all rows of the warp see
  for (int first = 0; first < block_end; first += Tile<D>::kKeys) {
    wait_for_copies();
    __syncthreads();  // K (and the first time Q) is complete; nobody needs the V before any more
    copy_rows<D>(tile.values, v + head + static_cast<size_t>(first) * D, seq_len - first);

    const bool visible = first < warp_end;
    Scores<D> s = {};
    if (visible) multiply_keys(tile, warp_row, a, b, s);

    const int next = first + Tile<D>::kKeys;
    wait_for_copies();
    __syncthreads();  // V is complete; nobody needs this K any more
    if (next < block_end) copy_rows<D>(tile.keys, k + head + static_cast<size_t>(next) * D, seq_len - next);
    if (!visible) continue;
    if (next > all_see) mask<D>(row, first, seq_len, causal, a, b, s);
    float correction[kTalls][2], of_output[kRowSquares][2];
#pragma unroll
    for (int i = 0; i < kTalls; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        correction[i][h] = softmax_row(h, scale * kLog2E, s[i], state.m[i][h], state.l[i][h]);
    exchange_rows(correction, b, of_output);
    add_values(tile, s, of_output, a, b, state);
  }
  if (row < seq_len) store(out + head + static_cast<size_t>(row) * D, seq_len - row, a, b, state);
}

template <int D>
void launch(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len, float scale,
            bool causal) {
  const dim3 grid(batch_heads, (seq_len + kRows - 1) / kRows);
  const int shared_bytes = static_cast<int>(sizeof(Tile<D>));
  cudaFuncSetAttribute(flash_3xtf32<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  flash_3xtf32<D><<<grid, kThreads, shared_bytes>>>(q, k, v, out, seq_len, scale, causal);
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  if (head_dim == 64)
    launch<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    launch<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
