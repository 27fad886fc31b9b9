// Fault: consumer_wait() of a cuda::pipeline comes after the stage was read: a barrier of the block waits for no
// copies.
// n = 64
#include <cuda/pipeline>

constexpr int kThreads = 64;

__global__ void reverse(const float* in, float* out) {
  __shared__ float stage[kThreads];
  cuda::pipeline<cuda::thread_scope_thread> pipeline = cuda::make_pipeline();
  const int t = threadIdx.x;
  pipeline.producer_acquire();
  cuda::memcpy_async(&stage[t], in + t, sizeof(float), pipeline);
  pipeline.producer_commit();
  __syncthreads();
  out[t] = stage[kThreads - 1 - t];  // expect: async_hazard
  pipeline.consumer_wait();
  pipeline.consumer_release();
}

extern "C" void solve(const float* in, float* out, int n) { reverse<<<1, kThreads>>>(in, out); }
