#include <cuda_runtime.h>
__device__ float atomicMaxF(float* a, float v){ int* ai=(int*)a; int old=*ai, as; do{ as=old; if(__int_as_float(as)>=v) break; old=atomicCAS(ai,as,__float_as_int(v)); }while(as!=old); return __int_as_float(old); }
__global__ void merge(const float* p, const float* m, const float* l, float* out, float* lse, int S, int rows, int D){
  __shared__ float mx, sum; int row=blockIdx.x,d=threadIdx.x;
  if(d==0){mx=-INFINITY;sum=0;} __syncthreads();
  for(int s=d;s<S;s+=blockDim.x) atomicMaxF(&mx,m[s*rows+row]);
  __syncthreads();
  for(int s=d;s<S;s+=blockDim.x) if(l[s*rows+row]>0) atomicAdd(&sum,expf(m[s*rows+row]-mx)*l[s*rows+row]);
  __syncthreads();
  float a=0; for(int s=0;s<S;s++) if(l[s*rows+row]>0) a+=expf(m[s*rows+row]-mx)*l[s*rows+row]*p[((size_t)s*rows+row)*D+d];
  out[(size_t)row*D+d]=sum>0?a/sum:0; if(d==0) lse[row]=sum>0?mx+logf(sum):-INFINITY;
}
extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, float* lse,
                      int num_splits, int rows, int head_dim){
  merge<<<rows, head_dim>>>(partial_out,m,l,out,lse,num_splits,rows,head_dim);
}
