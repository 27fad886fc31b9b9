// Split-K merge, rung 1: a thread per output element.
//
// Idea      Write the rule down as it is. The thread of out[row, d] finds the largest m of its row, then walks over
//           the splits once more: weight_s = exp(m_s - m) * l_s, out = sum weight_s * partial_s / sum weight_s.
//           Neighbouring threads read neighbouring dimensions, so partial_out is read in full sectors.
// Cost      num_splits * rows * head_dim floats of partial_out, once: the fewest possible. But m and l are fetched,
//           and the exponentials computed, head_dim times for every row.
// Gain      The first of the ladder: what the others are set against.
// Measured  NVIDIA H200: rows_65536_splits_32 589 us, 1,908 GB/s (42 % of the speed of light); rows_262144_splits_4 449
//           us, 1,516 GB/s (33 % of the speed of light). Score 20.1.
// Modelled  partial_out 1.0 times, m 7.6 and l 4.0 times at 128 splits; traffic score 57.
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
merge_naive(const float* __restrict__ partial_out, const float* __restrict__ m, const float* __restrict__ l,
            float* __restrict__ out, float* __restrict__ lse, int num_splits, int rows, int head_dim) {
  const size_t elements = static_cast<size_t>(rows) * head_dim;
  const size_t element = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= elements) return;
  const size_t row = element / head_dim;

  float largest = -INFINITY;
  for (int s = 0; s < num_splits; ++s) largest = fmaxf(largest, m[static_cast<size_t>(s) * rows + row]);

  float sum = 0.f, acc = 0.f;
  for (int s = 0; s < num_splits; ++s) {
    const size_t split_row = static_cast<size_t>(s) * rows + row;
    if (l[split_row] == 0.f) continue;  // an empty split: its partial_out means nothing, and may even be NaN
    const float weight = __expf(m[split_row] - largest) * l[split_row];
    sum += weight;
    acc += weight * partial_out[s * elements + element];
  }

  out[element] = sum > 0.f ? acc / sum : 0.f;
  if (element % head_dim == 0) lse[row] = sum > 0.f ? largest + logf(sum) : -INFINITY;
}

extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim) {
  const size_t elements = static_cast<size_t>(rows) * head_dim;
  const unsigned blocks = static_cast<unsigned>((elements + kThreads - 1) / kThreads);
  merge_naive<<<blocks, kThreads>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
