// FlashAttention forward. All pointers are device pointers; q, k, v, out are [batch_heads, seq_len, head_dim].
// Judge it:  python judge.py flash_attention this_file.cu

#include <cuda_runtime.h>

// One thread for each query row; blockIdx.y is the (batch, head) pair.
__global__ void flash_attention(const float* q, const float* k, const float* v, float* out,
                                int seq_len, int head_dim, float scale, int causal) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= seq_len) return;  // careful: a thread that has left can no longer reach a __syncthreads()
  const size_t head = static_cast<size_t>(blockIdx.y) * seq_len * head_dim;
  float* out_row = out + head + static_cast<size_t>(row) * head_dim;

  // TODO: go over the keys once. Keep a running maximum m, a running sum l and the row's unnormalised output,
  // and rescale l and the output by exp(m_old - m_new) whenever m grows. Divide by l at the end.
  for (int d = 0; d < head_dim; ++d) out_row[d] = 0.0f;
}

extern "C" void solve(const float* q, const float* k, const float* v, float* out,
                      int batch_heads, int seq_len, int head_dim, float scale, int causal) {
  const int threads = 64;
  const dim3 grid((seq_len + threads - 1) / threads, batch_heads);
  flash_attention<<<grid, threads>>>(q, k, v, out, seq_len, head_dim, scale, causal);
}
