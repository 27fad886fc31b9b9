// FlashAttention forward, rung 3: both products blocked in registers, as a float32 matrix product is.
//
// Needs sm_90.
// Idea   In rung 2 a fetch from shared memory feeds four to five multiply-adds. Here a lane owns 8 x 8 of the scores
//        and 8 x 8 of the output, and adds one outer product after another: 8 numbers of a column of Q times 8 of a
//        column of K, 8 weights of a key times 8 numbers of its row of V. Four fetches of 16 bytes feed 64
//        multiply-adds, and the next four are on their way meanwhile, into registers of their own.
//        For this Q and K lie transposed in shared memory. A warp's lanes stand in a grid, 4 x 8 for D = 64 and
//        2 x 16 for D = 128, so that a row of scores lies within one warp: its largest is found by shuffles, and the
//        weights pass from lane to lane through shared memory of the warp's own. The block meets twice a tile, only
//        to exchange K and V. Those come by cp.async: V travels while the scores are computed, the next K while the
//        output is. Nothing is masked but in tiles on an edge.
// Cost   An SM starts 4 instructions of warps a cycle, and has 4 x 32 multiply-adders: what counts is the share of
//        all other instructions. A step of an outer product is 64 multiply-adds and 4 fetches; a score costs 2 D / 64
//        such steps, and beside them some 8 instructions: to find the largest, exponentiate, add up, pass on. For
//        D = 128 that is 256 of 280. Of a lane's 255 registers, 128 hold scores and output, 32 two steps' operands:
//        no more than 8 warps fit on an SM, which do not hide every wait. Shared memory: 84 KiB for D = 64, two blocks
//        on an SM, and 216 KiB for D = 128, which only Hopper has.
// Gain   From 64 multiply-adds for 16 fetches and 32 for 6, to 64 for 4. Operands fetched a step early, and 8 steps
//        to a turn of the loop, are a tenth of the speed.
// Measured  NVIDIA H200: heads_64_seq_4096_d128 12,827 us, 43 TFLOP/s (29 % of the speed of light);
//           heads_64_seq_4096_d128_causal 6,462 us, 43 TFLOP/s (29 % of the speed of light); heads_32_seq_4096_d64
//           3,217 us, 43 TFLOP/s (29 % of the speed of light). Score 20.2.
// Modelled  k and v once for every 128 rows (8.0 times for 1000, about half of it if causal), q and out once; no bank
//           conflicts.
#include <cuda_runtime.h>

constexpr int kWarp = 32;
constexpr int kPack = 4;    // floats that move at once
constexpr int kSide = 8;    // of a lane's squares: two packs
constexpr int kRows = 128;  // of a block
constexpr int kPad = kPack;
constexpr int kUnrolled = 8;  // outer products; with 32 the loops outgrow the instruction cache: half the speed
constexpr int kThreadsPerSm = 256;  // as many as 255 registers each leave room for
constexpr float kLog2E = 1.44269504f;

template <int D>
struct Tile {
  static constexpr int kColumnLanes = D / kSide;
  static constexpr int kRowLanes = kWarp / kColumnLanes;
  static constexpr int kRowsPerWarp = kRowLanes * kSide;
  static constexpr int kWarps = kRows / kRowsPerWarp;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kBlocksPerSm = kThreadsPerSm / kThreads;
  static constexpr int kKeys = kColumnLanes * kSide;
  static constexpr int kChunk = 32;  // keys whose weights are in shared memory at once
  static_assert(kKeys % kChunk == 0 && kChunk % kColumnLanes == 0, "a chunk is a whole number of every lane's keys");

  float queries[D][kRows + kPad];  // transposed, as the keys are
  float keys[D][kKeys + kPad];
  float values[kKeys][D];  // the row of key k is values[line_of(k)]
  float weights[kWarps][kChunk][kRowsPerWarp + kPad];
};

// A lane's rows, keys and dimensions come in two packs. Neighbouring lanes have neighbouring packs.
template <int Lanes>
__device__ constexpr int place(int lane, int i) {
  return (i / kPack * Lanes + lane) * kPack + i % kPack;
}

// Keys in the order in which their weights are written: first each lane's first.
template <int D>
__device__ constexpr int line_of(int key) {
  constexpr int kLanes = Tile<D>::kColumnLanes;
  return (key / (kLanes * kPack) * kPack + key % kPack) * kLanes + key / kPack % kLanes;
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

// Rows of Q or K, transposed. A warp takes 4 rows x 8 columns at a time: whole sectors of global memory, and (a column
// being a multiple of 32 banks and 4 long) no bank of shared memory twice.
template <int D, int Stride>
__device__ __forceinline__ void copy_transposed(float (&to)[D][Stride], const float* from, int valid_rows) {
  constexpr int kRowsAtOnce = 4, kColumnsAtOnce = 8, kParts = D / kColumnsAtOnce;
  constexpr int kSteps = (Stride - kPad) / kRowsAtOnce * kParts / Tile<D>::kWarps;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const int part = step * Tile<D>::kWarps + warp;
    const int row = part / kParts * kRowsAtOnce + lane / kColumnsAtOnce;
    const int column = part % kParts * kColumnsAtOnce + lane % kColumnsAtOnce;
    const bool valid = row < valid_rows;
    copy_async<4>(&to[column][row], valid ? from + static_cast<size_t>(row) * D + column : from, valid);
  }
}

template <int D>
__device__ __forceinline__ void copy_values(Tile<D>& tile, const float* from, int valid_rows) {
  constexpr int kPacks = D / kPack, kSteps = Tile<D>::kKeys * kPacks / Tile<D>::kThreads;
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    const int i = step * Tile<D>::kThreads + threadIdx.x;
    const int row = i / kPacks, column = i % kPacks * kPack;
    const bool valid = row < valid_rows;
    copy_async<16>(&tile.values[line_of<D>(row)][column],
                   valid ? from + static_cast<size_t>(row) * D + column : from, valid);
  }
}

// Two packs, as many floats apart as that many lanes' packs.
template <int Lanes>
__device__ __forceinline__ void fetch(const float* from, float (&to)[kSide]) {
#pragma unroll
  for (int i = 0; i < kSide; i += kPack)
    *reinterpret_cast<float4*>(to + i) = *reinterpret_cast<const float4*>(from + i * Lanes);
}

// sum[r][c] += the outer products of `Steps` lines of a and of b. A step's operands are fetched one step early.
template <int RowLanes, int ColumnLanes, int Steps, int StrideA, int StrideB>
__device__ __forceinline__ void add_outer_products(const float* a, const float* b, float (&sum)[kSide][kSide]) {
  float next_a[kSide], next_b[kSide];
  fetch<RowLanes>(a, next_a);
  fetch<ColumnLanes>(b, next_b);
#pragma unroll kUnrolled
  for (int step = 0; step < Steps; ++step) {
    float row[kSide], column[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      row[i] = next_a[i];
      column[i] = next_b[i];
    }
    const int next = min(step + 1, Steps - 1);  // the last fetch is one too many
    fetch<RowLanes>(a + next * StrideA, next_a);
    fetch<ColumnLanes>(b + next * StrideB, next_b);
#pragma unroll
    for (int r = 0; r < kSide; ++r)
#pragma unroll
      for (int c = 0; c < kSide; ++c) sum[r][c] += row[r] * column[c];
  }
}

// What a lane keeps from tile to tile, for each of its rows.
struct State {
  float o[kSide][kSide];
  float m[kSide];  // largest score so far, times log2(e)
  float l[kSide];  // sum of its own weights: a row's lanes add theirs up once, at the end
};

// Keys that a row does not see. `row`, `key` are the first of the warp and of the tile.
template <int D>
__device__ __forceinline__ void mask(int row, int key, int seq_len, bool causal, int lane_row, int lane_column,
                            float (&s)[kSide][kSide]) {
  using T = Tile<D>;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const int seen = causal ? min(seq_len, row + place<T::kRowLanes>(lane_row, r) + 1) : seq_len;
#pragma unroll
    for (int j = 0; j < kSide; ++j)
      if (key + place<T::kColumnLanes>(lane_column, j) >= seen) s[r][j] = -INFINITY;
  }
}

// Scores become weights exp(scale * (s - m)), as powers of two: `factor` is scale * log2(e). m is finite: every row
// sees key 0, which is in the first tile.
template <int ColumnLanes>
__device__ __forceinline__ void softmax(float factor, float (&s)[kSide][kSide], State& state) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    float largest = s[r][0];
#pragma unroll
    for (int j = 1; j < kSide; ++j) largest = fmaxf(largest, s[r][j]);
#pragma unroll
    for (int x = 1; x < ColumnLanes; x *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, x));
    const float m_new = fmaxf(state.m[r], largest * factor);
    const float correction = exp2_fast(state.m[r] - m_new);
    state.m[r] = m_new;
    state.l[r] *= correction;
#pragma unroll
    for (int d = 0; d < kSide; ++d) state.o[r][d] *= correction;
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
      s[r][j] = exp2_fast(s[r][j] * factor - m_new);
      state.l[r] += s[r][j];
    }
  }
}

// o += weights * values. The weights are in registers of lanes that share a row; all of these need all of them.
template <int D>
__device__ __forceinline__ void add_values(Tile<D>& tile, int lane_row, int lane_column, const float (&s)[kSide][kSide],
                                  State& state) {
  using T = Tile<D>;
  constexpr int kKeysPerLane = T::kChunk / T::kColumnLanes;  // of a chunk
  auto& weights = tile.weights[threadIdx.x / kWarp];
#pragma unroll
  for (int first = 0; first < kSide; first += kKeysPerLane) {
    __syncwarp();  // nobody reads the chunk before any more
#pragma unroll
    for (int j = 0; j < kKeysPerLane; ++j)
#pragma unroll
      for (int r = 0; r < kSide; r += kPack)
        *reinterpret_cast<float4*>(
            &weights[j * T::kColumnLanes + lane_column][place<T::kRowLanes>(lane_row, r)]) =
            make_float4(s[r][first + j], s[r + 1][first + j], s[r + 2][first + j], s[r + 3][first + j]);
    __syncwarp();  // the chunk's weights are written
    add_outer_products<T::kRowLanes, T::kColumnLanes, T::kChunk, T::kRowsPerWarp + kPad, D>(
        &weights[0][lane_row * kPack], &tile.values[first * T::kColumnLanes][lane_column * kPack], state.o);
  }
}

// `out` is the warp's first row, `rows` how many there are from it on.
template <int D>
__device__ __forceinline__ void store(float* out, int rows, int lane_row, int lane_column, const State& state) {
  using T = Tile<D>;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    float sum = state.l[r];
#pragma unroll
    for (int x = 1; x < T::kColumnLanes; x *= 2) sum += __shfl_xor_sync(~0u, sum, x);
    const int row = place<T::kRowLanes>(lane_row, r);
    if (row >= rows) continue;
    const float inverse = 1.f / sum;
    const float(&o)[kSide] = state.o[r];
#pragma unroll
    for (int d = 0; d < kSide; d += kPack)
      *reinterpret_cast<float4*>(out + row * D + place<T::kColumnLanes>(lane_column, d)) =
          make_float4(o[d] * inverse, o[d + 1] * inverse, o[d + 2] * inverse, o[d + 3] * inverse);
  }
}

// Grid: (batch_heads, ceil(seq_len / kRows)). The last rows of all heads, which see most keys, begin first, and short
// ones fill the end: with the rows of one head after the other, causal attention is up to a fifth slower.
template <int D>
__global__ void __launch_bounds__(Tile<D>::kThreads, Tile<D>::kBlocksPerSm)
flash_register_blocking(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                        float* __restrict__ out, int seq_len, float scale, bool causal) {
  using T = Tile<D>;
  extern __shared__ float4 shared[];
  T& tile = *reinterpret_cast<T*>(shared);

  const int lane = threadIdx.x % kWarp, warp_row = threadIdx.x / kWarp * T::kRowsPerWarp;
  const int lane_row = lane / T::kColumnLanes, lane_column = lane % T::kColumnLanes;
  const int block_row = (gridDim.y - 1 - blockIdx.y) * kRows;
  const int row = block_row + warp_row;
  const size_t head = static_cast<size_t>(blockIdx.x) * seq_len * D;
  copy_transposed(tile.queries, q + head + static_cast<size_t>(block_row) * D, seq_len - block_row);
  copy_transposed(tile.keys, k + head, seq_len);

  State state = {};
#pragma unroll
  for (int r = 0; r < kSide; ++r) state.m[r] = -INFINITY;

  const int block_end = causal ? min(seq_len, block_row + kRows) : seq_len;  // keys that some row of the block sees
  const int warp_end = causal ? row + T::kRowsPerWarp : seq_len;             // that some row of the warp sees
  const int all_see = causal ? min(seq_len, row + 1) : seq_len;              // that all rows of the warp see
  for (int first = 0; first < block_end; first += T::kKeys) {
    wait_for_copies();
    __syncthreads();  // K (and the first time Q) is complete; nobody needs the V before any more
    copy_values(tile, v + head + static_cast<size_t>(first) * D, seq_len - first);

    const bool visible = first < warp_end;
    float s[kSide][kSide] = {};
    if (visible)
      add_outer_products<T::kRowLanes, T::kColumnLanes, D, kRows + kPad, T::kKeys + kPad>(
          &tile.queries[0][warp_row + lane_row * kPack], &tile.keys[0][lane_column * kPack], s);

    const int next = first + T::kKeys;
    wait_for_copies();
    __syncthreads();  // V is complete; nobody needs this K any more
    if (next < block_end) copy_transposed(tile.keys, k + head + static_cast<size_t>(next) * D, seq_len - next);
    if (!visible) continue;
    if (next > all_see) mask<D>(row, first, seq_len, causal, lane_row, lane_column, s);
    softmax<T::kColumnLanes>(scale * kLog2E, s, state);
    add_values(tile, lane_row, lane_column, s, state);
  }
  if (row < seq_len)
    store<D>(out + head + static_cast<size_t>(row) * D, seq_len - row, lane_row, lane_column, state);
}

template <int D>
void launch(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len, float scale,
            bool causal) {
  const dim3 grid(batch_heads, (seq_len + kRows - 1) / kRows);
  const int shared_bytes = static_cast<int>(sizeof(Tile<D>));
  cudaFuncSetAttribute(flash_register_blocking<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  flash_register_blocking<D><<<grid, Tile<D>::kThreads, shared_bytes>>>(q, k, v, out, seq_len, scale, causal);
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  if (head_dim == 64)
    launch<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    launch<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
