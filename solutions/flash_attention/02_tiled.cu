// FlashAttention forward, rung 2: four threads a row and a tile of scores in registers.
//
// Idea      In rung 1 every multiply-add fetches an operand from shared memory for itself. Here a thread works on two
//           rows at once, so that each K or V element it fetches is used twice, and a row's work is shared by four
//           threads, one in each warp of the block:
//           scores   warp w takes a quarter of the tile's keys: a 2 x (keys / 4) tile of scores in registers;
//           softmax  the four find their rows' largest score together; each exponentiates its own, and keeps a sum
//                    of its own that is added up once, at the very end;
//           output   warp w takes a quarter of the dimensions, for all keys: the weights pass through shared memory.
//           K and V are still broadcast within a warp. Q is stored transposed, weights too: lanes read neighbours.
// Cost      Global traffic as in rung 1. For D = 64, a step of 4 dimensions costs 8 + 8 fetches (K four floats at a
//           time) for 64 multiply-adds, a key of P V costs 2 + 4 fetches for 32; rung 1 pays a fetch for 4.
//           Registers: 2 * D / 4 outputs and the scores, a quarter of rung 1 at four times its threads a row.
// Gain      Fewer shared-memory fetches for each multiply-add and enough warps to hide them.
// Measured  NVIDIA H200: heads_64_seq_4096_d128 19,903 us, 28 TFLOP/s (19 % of the speed of light);
//           heads_64_seq_4096_d128_causal 10,739 us, 26 TFLOP/s (18 % of the speed of light); heads_32_seq_4096_d64
//           4,565 us, 30 TFLOP/s (21 % of the speed of light). Score 12.8.
// Modelled  k and v 16.0 times at 1,000 tokens, q and out once; no bank conflicts.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kRowsPerThread = 2;                // rows lane and lane + 32
constexpr int kRows = kWarp * kRowsPerThread;    // of a block

template <int D>
struct Tile {
  static constexpr int kKeys = D == 64 ? 32 : 16;      // less for D = 128, for shared memory's sake
  static constexpr int kKeysPerWarp = kKeys / kWarps;
  static constexpr int kDimsPerWarp = D / kWarps;
  static constexpr int kQueryStride = kRows + 1;       // odd: storing a row of Q as a column meets no bank twice

  float keys[kKeys][D];  // keys and values first: read four floats at a time, aligned to 16 bytes
  float values[kKeys][D];
  float queries[D * kQueryStride];       // transposed, and scaled
  float weights[kKeys][kRows];           // transposed
  float partial[kWarps][kRows];          // maxima of a tile, at the end sums
};

// Grid: (ceil(seq_len / kRows), batch_heads).
template <int D>
__global__ void __launch_bounds__(kThreads)
flash_tiled(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
            float* __restrict__ out, int seq_len, float scale, bool causal) {
  using T = Tile<D>;
  extern __shared__ float4 shared[];
  T& tile = *reinterpret_cast<T*>(shared);

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int block_row = blockIdx.x * kRows;
  const size_t head = static_cast<size_t>(blockIdx.y) * seq_len * D;

  for (int i = threadIdx.x; i < kRows * D; i += kThreads) {
    const bool valid = block_row + i / D < seq_len;
    const float element = valid ? q[head + static_cast<size_t>(block_row) * D + i] * scale : 0.f;
    tile.queries[i % D * T::kQueryStride + i / D] = element;
  }

  float o[kRowsPerThread][T::kDimsPerWarp] = {};
  float m[kRowsPerThread], l[kRowsPerThread];
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    m[r] = -INFINITY;
    l[r] = 0.f;
  }

  const int end = causal ? min(seq_len, block_row + kRows) : seq_len;
  for (int first = 0; first < end; first += T::kKeys) {
    for (int i = threadIdx.x; i < T::kKeys * D; i += kThreads) {
      const bool valid = first + i / D < seq_len;
      const size_t offset = head + static_cast<size_t>(first) * D + i;
      tile.keys[i / D][i % D] = valid ? k[offset] : 0.f;
      tile.values[i / D][i % D] = valid ? v[offset] : 0.f;
    }
    __syncthreads();  // the tile is complete (and, the first time, the queries)

    // Scores of this thread's rows and this warp's keys.
    float s[kRowsPerThread][T::kKeysPerWarp] = {};
    for (int d = 0; d < D; d += 4) {
      float query[kRowsPerThread][4];
#pragma unroll
      for (int r = 0; r < kRowsPerThread; ++r)
#pragma unroll
        for (int i = 0; i < 4; ++i) query[r][i] = tile.queries[(d + i) * T::kQueryStride + lane + r * kWarp];
#pragma unroll
      for (int j = 0; j < T::kKeysPerWarp; ++j) {
        const float4 key = *reinterpret_cast<const float4*>(&tile.keys[warp * T::kKeysPerWarp + j][d]);
#pragma unroll
        for (int r = 0; r < kRowsPerThread; ++r) {
          s[r][j] += query[r][0] * key.x;
          s[r][j] += query[r][1] * key.y;
          s[r][j] += query[r][2] * key.z;
          s[r][j] += query[r][3] * key.w;
        }
      }
    }

    // Mask, and the largest score of each row: first among this warp's keys, then over the four warps.
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
      const int row = block_row + lane + r * kWarp;
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < T::kKeysPerWarp; ++j) {
        const int key = first + warp * T::kKeysPerWarp + j;
        const bool masked = key >= seq_len || (causal && key > row);
        s[r][j] = masked ? -INFINITY : s[r][j];
        largest = fmaxf(largest, s[r][j]);
      }
      tile.partial[warp][lane + r * kWarp] = largest;
    }
    __syncthreads();  // all maxima are written

    // Weights. m_new is finite: every row sees key 0, which is in the first tile.
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
      float m_new = m[r];
#pragma unroll
      for (int w = 0; w < kWarps; ++w) m_new = fmaxf(m_new, tile.partial[w][lane + r * kWarp]);
      const float correction = __expf(m[r] - m_new);
      m[r] = m_new;
      l[r] *= correction;
#pragma unroll
      for (int d = 0; d < T::kDimsPerWarp; ++d) o[r][d] *= correction;
#pragma unroll
      for (int j = 0; j < T::kKeysPerWarp; ++j) {
        const float weight = __expf(s[r][j] - m_new);
        l[r] += weight;
        tile.weights[warp * T::kKeysPerWarp + j][lane + r * kWarp] = weight;
      }
    }
    __syncthreads();  // all weights are written

    // Output: this thread's rows and this warp's dimensions, over all keys of the tile.
    for (int j = 0; j < T::kKeys; ++j) {
      float weight[kRowsPerThread];
#pragma unroll
      for (int r = 0; r < kRowsPerThread; ++r) weight[r] = tile.weights[j][lane + r * kWarp];
#pragma unroll
      for (int d = 0; d < T::kDimsPerWarp; d += 4) {
        const float4 value = *reinterpret_cast<const float4*>(&tile.values[j][warp * T::kDimsPerWarp + d]);
#pragma unroll
        for (int r = 0; r < kRowsPerThread; ++r) {
          o[r][d] += weight[r] * value.x;
          o[r][d + 1] += weight[r] * value.y;
          o[r][d + 2] += weight[r] * value.z;
          o[r][d + 3] += weight[r] * value.w;
        }
      }
    }
    __syncthreads();  // nobody needs this tile any more
  }

  // The four sums of a row, one from each warp's keys, make the row's sum.
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) tile.partial[warp][lane + r * kWarp] = l[r];
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int row = block_row + lane + r * kWarp;
    if (row >= seq_len) continue;
    float sum = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += tile.partial[w][lane + r * kWarp];
    const float inverse = 1.f / sum;
    float4* target = reinterpret_cast<float4*>(&out[head + static_cast<size_t>(row) * D + warp * T::kDimsPerWarp]);
#pragma unroll
    for (int d = 0; d < T::kDimsPerWarp; d += 4)
      target[d / 4] = make_float4(o[r][d] * inverse, o[r][d + 1] * inverse, o[r][d + 2] * inverse,
                                  o[r][d + 3] * inverse);
  }
}

template <int D>
void launch(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len, float scale,
            bool causal) {
  const dim3 grid((seq_len + kRows - 1) / kRows, batch_heads);
  const int shared_bytes = static_cast<int>(sizeof(Tile<D>));
  cudaFuncSetAttribute(flash_tiled<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  flash_tiled<D><<<grid, kThreads, shared_bytes>>>(q, k, v, out, seq_len, scale, causal);
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  if (head_dim == 64)
    launch<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    launch<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
