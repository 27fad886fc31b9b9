#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void merge(const float* po, const float* m, const float* l, float* out, float* lse, int S, int R, int D) {
  __shared__ float w[128]; __shared__ float total; __shared__ float part[4];
  int t = threadIdx.x, row = blockIdx.x, warp = t / 32, lane = t % 32;
  float mx = -INFINITY; for (int s = 0; s < S; ++s) mx = fmaxf(mx, m[(size_t)s * R + row]);
  // is any split of this row live? Warp 0 alone looks; the other warps meet at their own barrier first
  int vote = 0;
  if (warp == 0) { for (int s = lane; s < S; s += 32) vote |= l[(size_t)s * R + row] > 0.f; }
  else asm volatile("bar.sync 1, 96;" ::: "memory");
  int any = __syncthreads_or(vote);
  if (warp == 0) { for (int s = lane; s < S; s += 32) { float ls = l[(size_t)s * R + row]; w[s] = ls > 0 ? ls * expf(m[(size_t)s * R + row] - mx) : 0.f; } }
  __syncthreads();
  if (t == 0) { float x = 0; if (any) for (int s = 0; s < S; ++s) x += w[s]; total = x; }
  __syncthreads();
  float inv = total > 0 ? 1 / total : 0;
  for (int d = t; d < D; d += blockDim.x) { float a = 0; for (int s = 0; s < S; ++s) if (w[s] > 0) a += w[s] * po[((size_t)s * R + row) * D + d]; out[(size_t)row * D + d] = a * inv; }
  if (t == 0) lse[row] = total > 0 ? mx + logf(total) : -INFINITY;
}
extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits, int rows, int head_dim) {
  merge<<<rows, 128>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
