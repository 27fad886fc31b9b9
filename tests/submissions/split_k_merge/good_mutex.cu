#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void merge(const float* po, const float* m, const float* l, float* out, float* lse, int S, int R, int D) {
  __shared__ float w[128]; __shared__ float total; __shared__ int lock;
  int t = threadIdx.x, row = blockIdx.x, warp = t / 32, lane = t % 32;
  float mx = -INFINITY; for (int s = 0; s < S; ++s) mx = fmaxf(mx, m[(size_t)s * R + row]);
  if (t == 0) { lock = 0; total = 0.f; }
  __syncthreads();
  float x = 0; for (int s = t; s < S; s += 128) { float ls = l[(size_t)s * R + row]; float y = ls > 0 ? ls * expf(m[(size_t)s * R + row] - mx) : 0.f; w[s] = y; x += y; }
  for (int o = 16; o; o >>= 1) x += __shfl_xor_sync(~0u, x, o);
  if (lane == 0) {
    while (atomicCAS(&lock, 0, 1) != 0) {}
    __threadfence_block(); total += x; __threadfence_block();
    atomicExch(&lock, 0);
  }
  __syncthreads();
  float inv = total > 0 ? 1 / total : 0;
  for (int d = t; d < D; d += blockDim.x) { float a = 0; for (int s = 0; s < S; ++s) if (w[s] > 0) a += w[s] * po[((size_t)s * R + row) * D + d]; out[(size_t)row * D + d] = a * inv; }
  if (t == 0) lse[row] = total > 0 ? mx + logf(total) : -INFINITY;
}
extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse, int num_splits, int rows, int head_dim) {
  merge<<<rows, 128>>>(partial_out, m, l, out, lse, num_splits, rows, head_dim);
}
