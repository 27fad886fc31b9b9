// Fault: the slot that broadcasts a row's correction is written for the next row while slow warps still read this
// row's: one barrier a turn is one too few.
// n = 512
#include <cuda_runtime.h>

constexpr int kThreads = 128;

// The block scales its rows of kThreads numbers one after the other.
__global__ void scale_rows(const float* in, float* out, int rows) {
  __shared__ float correction;
  for (int row = 0; row < rows; ++row) {
    if (threadIdx.x == 0) correction = expf(in[row * kThreads]);  // expect: data_race
    __syncthreads();
    out[row * kThreads + threadIdx.x] = in[row * kThreads + threadIdx.x] * correction;  // other
  }
}

extern "C" void solve(const float* in, float* out, int n) { scale_rows<<<1, kThreads>>>(in, out, n / kThreads); }
