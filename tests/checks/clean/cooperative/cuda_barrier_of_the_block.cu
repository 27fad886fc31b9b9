// Clean: cuda::barrier: warps arrive early, do something else, and wait with the token.
// n = 256
#include <cuda/barrier>

constexpr int kThreads = 64;

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ float tile_data[kThreads];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ Barrier barrier;
  const int t = threadIdx.x;
  if (t == 0) init(&barrier, kThreads);
  __syncthreads();
  for (int tile = 0; tile < tiles; ++tile) {
    tile_data[t] = in[tile * kThreads + t];
    Barrier::arrival_token token = barrier.arrive();
    const float weight = expf(in[tile * kThreads + t]);
    barrier.wait(static_cast<Barrier::arrival_token&&>(token));
    out[tile * kThreads + t] = weight * tile_data[kThreads - 1 - t];
    barrier.arrive_and_wait();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kThreads); }
