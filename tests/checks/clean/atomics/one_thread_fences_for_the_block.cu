// Clean: all threads store partial results, then a barrier, then thread 0 alone fences and takes the ticket: the
// barrier puts the others' stores before its fence.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 128;

__global__ void merge(const float* in, float* out, float* partial, unsigned* ticket) {
  __shared__ bool last;
  const int i = blockIdx.x * kThreads + threadIdx.x;
  partial[i] = expf(in[i]);
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  for (int split = 0; split < gridDim.x; ++split)
    out[split * kThreads + threadIdx.x] = partial[(gridDim.x - 1 - split) * kThreads + threadIdx.x];
}

extern "C" void solve(const float* in, float* out, int n) {
  float* partial;
  unsigned* ticket;
  cudaMalloc(&partial, n * sizeof(float));
  cudaMalloc(&ticket, sizeof(unsigned));
  cudaMemset(ticket, 0, sizeof(unsigned));
  merge<<<n / kThreads, kThreads>>>(in, out, partial, ticket);
  cudaFree(partial);
  cudaFree(ticket);
}
