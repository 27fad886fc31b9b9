// Fault: a kernel marks pages as read in the page table that it was given to read.
// n = 3
#include <cuda_runtime.h>

constexpr int kDim = 32, kPage = 16, kPagesPerSeq = 4;

__global__ void first_values(const float* cache, int* pages, float* out) {
  const int seq = blockIdx.x, page = pages[seq * kPagesPerSeq];
  out[seq * kDim + threadIdx.x] = cache[page * kPage * kDim + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) atomicExch(&pages[seq * kPagesPerSeq], -1);  // expect: read_only_write
}

extern "C" void solve(const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n) {
  first_values<<<n, kDim>>>(cache, const_cast<int*>(pages), out);
}
