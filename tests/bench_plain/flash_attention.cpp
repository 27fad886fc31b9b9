// tests/submissions/flash_attention/chapter.cu as plain C++: blocks and threads are loops, and what stands between two
// barriers is one loop over the threads of the block. Built and called by tests/bench_plain.py.
#include <algorithm>
#include <cmath>
#include <cstddef>

namespace {

constexpr int Br = 64;
constexpr int Bc = 32;

template <int D>
struct Block {
  float keys[Bc][D], values[Bc][D];                   // shared memory
  float query[Br][D], acc[Br][D];                     // registers, one row a thread
  float running_max[Br], running_sum[Br];

  void start(const float* q, std::size_t base, int first, int n, float scale) {
    for (int t = 0; t < Br; ++t) {
      const int row = first + t;
      for (int d = 0; d < D; ++d) {
        query[t][d] = row < n ? q[base + static_cast<std::size_t>(row) * D + d] * scale : 0.f;
        acc[t][d] = 0.f;
      }
      running_max[t] = -INFINITY;
      running_sum[t] = 0.f;
    }
  }

  void load(const float* k, const float* v, std::size_t base, int tile, int n) {
    for (int t = 0; t < Br; ++t)
      for (int i = t; i < Bc * D; i += Br) {
        const int key = tile + i / D, d = i % D;
        keys[i / D][d] = key < n ? k[base + static_cast<std::size_t>(key) * D + d] : 0.f;
        values[i / D][d] = key < n ? v[base + static_cast<std::size_t>(key) * D + d] : 0.f;
      }
  }

  void add(int t, int row, int tile, int n, bool causal) {
    float scores[Bc];
    float tile_max = -INFINITY;
    for (int j = 0; j < Bc; ++j) {
      float dot = 0.f;
      for (int d = 0; d < D; ++d) dot += query[t][d] * keys[j][d];
      const bool hidden = tile + j >= n || (causal && tile + j > row);
      scores[j] = hidden ? -INFINITY : dot;
      tile_max = std::max(tile_max, scores[j]);
    }
    const float new_max = std::max(running_max[t], tile_max);
    if (new_max == -INFINITY) return;
    const float shrink = std::exp(running_max[t] - new_max);
    float tile_sum = 0.f;
    for (int j = 0; j < Bc; ++j) {
      scores[j] = std::exp(scores[j] - new_max);
      tile_sum += scores[j];
    }
    running_sum[t] = running_sum[t] * shrink + tile_sum;
    for (int d = 0; d < D; ++d) acc[t][d] *= shrink;
    for (int j = 0; j < Bc; ++j)
      for (int d = 0; d < D; ++d) acc[t][d] += scores[j] * values[j][d];
    running_max[t] = new_max;
  }

  void store(float* out, std::size_t base, int first, int n) const {
    for (int t = 0; t < Br; ++t) {
      const int row = first + t;
      if (row >= n) continue;
      const float inverse = 1.f / running_sum[t];
      for (int d = 0; d < D; ++d) out[base + static_cast<std::size_t>(row) * D + d] = acc[t][d] * inverse;
    }
  }
};

template <int D>
void flash_forward(const float* q, const float* k, const float* v, float* out, int heads, int n, float scale, bool causal) {
  static Block<D> block;
  for (int head = 0; head < heads; ++head)
    for (int first = 0; first < n; first += Br) {
      const std::size_t base = static_cast<std::size_t>(head) * n * D;
      block.start(q, base, first, n, scale);
      const int stop = causal ? std::min(n, first + Br) : n;
      for (int tile = 0; tile < stop; tile += Bc) {
        block.load(k, v, base, tile, n);
        for (int t = 0; t < Br; ++t) block.add(t, first + t, tile, n, causal);
      }
      block.store(out, base, first, n);
    }
}

}  // namespace

extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len,
                      int head_dim, float scale, int causal) {
  if (head_dim == 64)
    flash_forward<64>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
  else
    flash_forward<128>(q, k, v, out, batch_heads, seq_len, scale, causal != 0);
}
