// Fault: the consumer's loop runs one tile further than the producer's: it waits for a tile that nobody loads.
// n = 64
#include <cuda_runtime.h>

constexpr int kTile = 32, kMaxTiles = 4;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ bool try_wait(const unsigned long long* barrier, unsigned parity) {
  unsigned done;
  asm volatile(  // expect: deadlock
      "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done) : "r"(shared_address(barrier)), "r"(parity) : "memory");  // expect: deadlock
  return done;
}

// Warp 0 loads each tile into a stage of its own, warp 1 adds them up.
__global__ void add_tiles(const float* in, float* out, int tiles) {
  __shared__ float stages[kMaxTiles][kTile];
  __shared__ unsigned long long full[kMaxTiles];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < kMaxTiles)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(shared_address(&full[threadIdx.x])) : "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int tile = 0; tile < tiles; ++tile) {
      stages[tile][lane] = in[tile * kTile + lane];
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&full[tile])) : "memory");
    }
  } else {
    float sum = 0.f;
    for (int tile = 0; tile <= tiles; ++tile) {
      while (!try_wait(&full[tile], 0)) {  // expect: deadlock
      }
      if (tile < tiles) sum += stages[tile][lane];
    }
    for (int tile = 0; tile < tiles; ++tile) out[tile * kTile + lane] = sum;
  }
  __syncthreads();  // expect: deadlock
}

extern "C" void solve(const float* in, float* out, int n) { add_tiles<<<1, 64>>>(in, out, n / kTile); }
