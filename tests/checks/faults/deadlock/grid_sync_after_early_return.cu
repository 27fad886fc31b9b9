// Fault: a block without rows returns before grid.sync(), at which the others wait for the whole grid.
// n = 48
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

constexpr int kThreads = 32;

__global__ void normalise(const float* in, float* out, float* total, int n) {
  cg::grid_group grid = cg::this_grid();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (blockIdx.x * kThreads >= n) return;
  if (i < n) atomicAdd(total, in[i] * in[i]);
  grid.sync();  // expect: deadlock
  if (i < n) out[i] = in[i] * rsqrtf(*total);
}

extern "C" void solve(const float* in, float* out, int n) {
  float* total;
  cudaMalloc(&total, sizeof(float));
  cudaMemset(total, 0, sizeof(float));
  void* arguments[] = {&in, &out, &total, &n};
  cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(normalise), dim3(3), dim3(kThreads), arguments, 0, 0);
  cudaFree(total);
}
