// Fault: the binary search for a token's sequence does not move on where two numbers are left: it never ends.
// n = 64
#include <cuda_runtime.h>

__global__ void find(const float* in, float* out, int n) {
  int low = 0, high = n;
  while (high - low > 0) {  // expect: time_limit
    const int middle = (low + high) / 2;  // expect: time_limit
    if (middle <= threadIdx.x)  // expect: time_limit
      low = middle;             // low = middle + 1 would be right
    else
      high = middle;
  }
  out[threadIdx.x] = in[low];
}

extern "C" void solve(const float* in, float* out, int n) { find<<<1, n>>>(in, out, n); }
