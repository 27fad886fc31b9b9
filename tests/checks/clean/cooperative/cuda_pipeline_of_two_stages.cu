// Clean: cuda::pipeline with two stages: producer_acquire, memcpy_async, producer_commit, consumer_wait and release.
// n = 512
#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

constexpr int kThreads = 64, kStages = 2;

__global__ void reverse_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[kStages][kThreads];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  const int t = threadIdx.x;
  int ahead = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    for (; ahead < tiles && ahead < tile + kStages; ++ahead) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&stages[ahead % kStages][t], in + ahead * kThreads + t, sizeof(float), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    out[tile * kThreads + t] = stages[tile % kStages][kThreads - 1 - t];
    pipeline.consumer_release();
  }
}

extern "C" void solve(const float* in, float* out, int n) { reverse_tiles<<<1, kThreads>>>(in, out, n / kThreads); }
