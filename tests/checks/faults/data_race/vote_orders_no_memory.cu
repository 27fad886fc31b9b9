// Fault: a __ballot_sync() between a store and another lane's load is taken for a barrier.
// n = 32
#include <cuda_runtime.h>

// Packs the scores above zero to the front; the rest of the row is zero.
__global__ void compact(const float* in, float* out) {
  __shared__ float kept[32];
  const int lane = threadIdx.x;
  kept[lane] = 0.f;
  __syncwarp();
  const bool keep = in[lane] > 0.f;
  const unsigned all = __ballot_sync(0xffffffffu, keep);
  if (keep) kept[__popc(all & ((1u << lane) - 1u))] = in[lane];  // other
  const int count = __popc(__ballot_sync(0xffffffffu, keep));
  out[lane] = lane < count ? kept[lane] : 0.f;  // expect: data_race
}

extern "C" void solve(const float* in, float* out, int n) { compact<<<1, 32>>>(in, out); }
