// Split-K merge, rung 3: a persistent grid whose warps fetch the next rows' weights while they stream this one's data.
//
// Idea      In rung 2 a warp waits for m, then for l, and only then asks for its first byte of partial_out; and of each
//           32-byte sector of m or l it needs four bytes. Here the grid is just what the card holds at once, and a warp
//           walks over tiles of 8 neighbouring rows, so that a sector of m or l is used whole. m and l of its next tile
//           are on their way (cp.async) while it streams partial_out of the present one, 8 splits at a time.
//           Everything is read or written once, so loads and stores are streaming: their lines leave the cache first.
// Cost      As rung 2: partial_out, m and l once each, out and lse once. Shared memory: m and l of two tiles a warp.
// Gain      No latency at the start of each row. Few splits, or short rows, gain most: there a warp waited for more
//           of its time.
// Measured  NVIDIA H200: rows_65536_splits_32 258 us, 4,358 GB/s (94 % of the speed of light); rows_262144_splits_4 172
//           us, 3,967 GB/s (85 % of the speed of light). Score 47.7.
// Modelled  Every tensor 1.0 times; m and l in 4 sectors a request, which is what 8 rows of 4 splits take.
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

#include <algorithm>

constexpr int kWarp = 32;
constexpr int kWarps = 8;  // of a block
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileRows = 8;  // the floats of a 32-byte sector
constexpr int kInFlight = 8;  // splits that a lane has loads of under way
constexpr int kStages = 2;    // tiles a warp has m and l of
constexpr int kManyRows = 16384;  // from here on there are tiles of kTileRows for every warp of a large card
constexpr int kManySplits = 96;   // beyond, the m and l of such tiles leave too little shared memory for other blocks
constexpr unsigned kAllLanes = 0xffffffffu;

// Combines what the lanes of one row have: those whose numbers differ by multiples of Rows.
template <int Rows, class Combine>
__device__ __forceinline__ float over_row(float value, Combine combine) {
#pragma unroll
  for (int offset = kWarp / 2; offset >= Rows; offset /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

// Starts to copy m and l of a tile, [num_splits][Rows] each. Nothing is copied for rows beyond the end.
template <int Rows>
__device__ __forceinline__ void fetch(float* tile_m, float* tile_l, const float* __restrict__ m,
                                      const float* __restrict__ l, int tile, int num_splits, int rows) {
  const int lane = threadIdx.x % kWarp, slot = lane % Rows;
  const long long row = static_cast<long long>(tile) * Rows + slot;
  for (int s = lane / Rows; row < rows && s < num_splits; s += kWarp / Rows) {
    const size_t from = static_cast<size_t>(s) * rows + row;
    __pipeline_memcpy_async(&tile_m[s * Rows + slot], &m[from], sizeof(float));
    __pipeline_memcpy_async(&tile_l[s * Rows + slot], &l[from], sizeof(float));
  }
  __pipeline_commit();
}

// Turns m and l of a tile into weights that add up to one in each row, in the place of m; writes lse.
template <int Rows>
__device__ __forceinline__ void normalise(float* tile_m, const float* tile_l, float* __restrict__ lse, int tile,
                                          int num_splits, int rows) {
  const int lane = threadIdx.x % kWarp, slot = lane % Rows, first = lane / Rows, row = tile * Rows + slot;
  const int splits = row < rows ? num_splits : 0;
  float largest = -INFINITY, sum = 0.f;
  for (int s = first; s < splits; s += kWarp / Rows) largest = fmaxf(largest, tile_m[s * Rows + slot]);
  largest = over_row<Rows>(largest, [](float a, float b) { return fmaxf(a, b); });
  for (int s = first; s < splits; s += kWarp / Rows) {
    const float part = tile_l[s * Rows + slot];
    const float weight = part > 0.f ? __expf(tile_m[s * Rows + slot] - largest) * part : 0.f;
    tile_m[s * Rows + slot] = weight;
    sum += weight;
  }
  sum = over_row<Rows>(sum, [](float a, float b) { return a + b; });
  const float inverse = sum > 0.f ? 1.f / sum : 0.f;
  for (int s = first; s < splits; s += kWarp / Rows) tile_m[s * Rows + slot] *= inverse;
  if (row < rows && first == 0) lse[row] = sum > 0.f ? largest + logf(sum) : -INFINITY;
}

// Four dimensions of one row: the weighted sum over the splits. part: their place in split 0; stride: float4 from split
// to split. A split of weight zero, empty or too small to matter, is not even read.
template <int Rows>
__device__ __forceinline__ float4 merged(const float4* __restrict__ part, const float* weights, size_t stride,
                                         int num_splits) {
  float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int s = 0; s < num_splits; s += kInFlight) {
    float weight[kInFlight];
    float4 found[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {  // all loads come before the first use: they are under way together
      weight[i] = s + i < num_splits ? weights[(s + i) * Rows] : 0.f;
      found[i] = make_float4(0.f, 0.f, 0.f, 0.f);
      if (weight[i] != 0.f) found[i] = __ldcs(&part[(s + i) * stride]);
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      sum.x += weight[i] * found[i].x;
      sum.y += weight[i] * found[i].y;
      sum.z += weight[i] * found[i].z;
      sum.w += weight[i] * found[i].w;
    }
  }
  return sum;
}

// Vectors: float4 of a row, head_dim / 4. Shared memory: [kWarps][kStages][2][num_splits][Rows],
// which has room for some 1,700 splits.
template <int Vectors, int Rows>
__global__ void __launch_bounds__(kThreads, 1)  // the 1 lets ptxas take the registers that loads under way need
merge_persistent(const float4* __restrict__ partial_out, const float* __restrict__ m, const float* __restrict__ l,
                 float4* __restrict__ out, float* __restrict__ lse, int num_splits, int rows) {
  extern __shared__ float shared[];
  constexpr int kRowsAtOnce = kWarp / Vectors;  // a row of 64 dimensions takes half a warp
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int warps = gridDim.x * kWarps, tiles = (rows + Rows - 1) / Rows;
  const int tile_floats = num_splits * Rows;
  float* stages = shared + warp * kStages * 2 * tile_floats;
  const size_t stride = static_cast<size_t>(rows) * Vectors;

  int tile = blockIdx.x * kWarps + warp, stage = 0;
  fetch<Rows>(stages, stages + tile_floats, m, l, tile, num_splits, rows);
  for (; tile < tiles; tile += warps, stage ^= 1) {
    float* next = stages + (stage ^ 1) * 2 * tile_floats;
    fetch<Rows>(next, next + tile_floats, m, l, tile + warps, num_splits, rows);
    __pipeline_wait_prior(1);  // all but the copies that were just started are done
    __syncwarp();              // those of the other lanes too

    float* weights = stages + stage * 2 * tile_floats;
    normalise<Rows>(weights, weights + tile_floats, lse, tile, num_splits, rows);
    __syncwarp();  // the lanes read each other's weights
#pragma unroll 2
    for (int slot = lane / Vectors; slot < Rows; slot += kRowsAtOnce) {
      const int row = tile * Rows + slot;
      if (row >= rows) break;
      const size_t at = static_cast<size_t>(row) * Vectors + lane % Vectors;
      __stcs(&out[at], merged<Rows>(partial_out + at, weights + slot, stride, num_splits));
    }
    __syncwarp();  // nobody needs these weights any more
  }
}

template <int Vectors, int Rows>
void launch(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits,
            int rows) {
  const auto kernel = merge_persistent<Vectors, Rows>;
  const int shared_bytes = kWarps * kStages * 2 * num_splits * Rows * static_cast<int>(sizeof(float));
  int multiprocessors = 1, blocks = 1;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, shared_bytes);
  const int tiles = (rows + Rows - 1) / Rows;
  const int grid = std::min(multiprocessors * std::max(blocks, 1), (tiles + kWarps - 1) / kWarps);
  kernel<<<grid, kThreads, shared_bytes>>>(reinterpret_cast<const float4*>(partial_out), m, l,
                                           reinterpret_cast<float4*>(out), lse, num_splits, rows);
}

template <int Vectors>
void launch_for_size(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits,
                     int rows) {
  if (rows >= kManyRows && num_splits <= kManySplits)
    launch<Vectors, kTileRows>(partial_out, m, l, out, lse, num_splits, rows);
  else
    launch<Vectors, 1>(partial_out, m, l, out, lse, num_splits, rows);
}

extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim) {
  if (head_dim == 64)
    launch_for_size<16>(partial_out, m, l, out, lse, num_splits, rows);
  else
    launch_for_size<32>(partial_out, m, l, out, lse, num_splits, rows);
}
