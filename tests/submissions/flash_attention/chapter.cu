// One thread for one query row, K and V tiles of 32 rows in shared memory, scores of a tile in registers: the
// structure of the handbook's teaching kernel (Br = 64, Bc = 32).
#include <cuda_runtime.h>

constexpr int Br = 64;
constexpr int Bc = 32;

template <int D>
__global__ void __launch_bounds__(Br)
flash_forward(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
              float* __restrict__ out, int n, float scale, bool causal) {
  __shared__ float keys[Bc][D];
  __shared__ float values[Bc][D];
  const int row = blockIdx.x * Br + threadIdx.x;
  const bool in_range = row < n;
  const size_t base = static_cast<size_t>(blockIdx.y) * n * D;

  float query[D], acc[D];
#pragma unroll
  for (int d = 0; d < D; ++d) {
    query[d] = in_range ? q[base + static_cast<size_t>(row) * D + d] * scale : 0.f;
    acc[d] = 0.f;
  }
  float running_max = -INFINITY, running_sum = 0.f;

  const int stop = causal ? min(n, static_cast<int>(blockIdx.x + 1) * Br) : n;
  for (int start = 0; start < stop; start += Bc) {
    for (int i = threadIdx.x; i < Bc * D; i += Br) {
      const int key = start + i / D, d = i % D;
      keys[i / D][d] = key < n ? k[base + static_cast<size_t>(key) * D + d] : 0.f;
      values[i / D][d] = key < n ? v[base + static_cast<size_t>(key) * D + d] : 0.f;
    }
    __syncthreads();

    float scores[Bc];
    float tile_max = -INFINITY;
#pragma unroll
    for (int j = 0; j < Bc; ++j) {
      float dot = 0.f;
#pragma unroll
      for (int d = 0; d < D; ++d) dot += query[d] * keys[j][d];
      const bool hidden = start + j >= n || (causal && start + j > row);
      scores[j] = hidden ? -INFINITY : dot;
      tile_max = fmaxf(tile_max, scores[j]);
    }

    const float new_max = fmaxf(running_max, tile_max);
    if (new_max != -INFINITY) {  // else all keys so far are hidden
      const float shrink = __expf(running_max - new_max);
      float tile_sum = 0.f;
#pragma unroll
      for (int j = 0; j < Bc; ++j) {
        scores[j] = __expf(scores[j] - new_max);
        tile_sum += scores[j];
      }
      running_sum = running_sum * shrink + tile_sum;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        float sum = acc[d] * shrink;
#pragma unroll
        for (int j = 0; j < Bc; ++j) sum += scores[j] * values[j][d];
        acc[d] = sum;
      }
      running_max = new_max;
    }
    __syncthreads();
  }

  if (in_range) {
    const float inverse = 1.f / running_sum;
#pragma unroll
    for (int d = 0; d < D; ++d) out[base + static_cast<size_t>(row) * D + d] = acc[d] * inverse;
  }
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  const dim3 grid((seq_len + Br - 1) / Br, batch_heads);
  if (head_dim == 64)
    flash_forward<64><<<grid, Br>>>(q, k, v, out, seq_len, scale, causal != 0);
  else
    flash_forward<128><<<grid, Br>>>(q, k, v, out, seq_len, scale, causal != 0);
}
