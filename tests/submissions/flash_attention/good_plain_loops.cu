#include <cuda_runtime.h>
template<int D>
__global__ void fa(const float* q,const float* k,const float* v,float* out,int n,float scale,int causal){
  int row=blockIdx.x*blockDim.x+threadIdx.x; if(row>=n) return;
  size_t base=(size_t)blockIdx.y*n*D;
  float acc[D]; for(int d=0;d<D;d++) acc[d]=0;
  float mx=-INFINITY,l=0;
  int end=causal?row+1:n;
  for(int j=0;j<end;j++){
    float s=0; for(int d=0;d<D;d++) s+=q[base+(size_t)row*D+d]*k[base+(size_t)j*D+d];
    s*=scale;
    float mn=fmaxf(mx,s); float c=__expf(mx-mn), p=__expf(s-mn);
    l=l*c+p; for(int d=0;d<D;d++) acc[d]=acc[d]*c+p*v[base+(size_t)j*D+d];
    mx=mn;
  }
  for(int d=0;d<D;d++) out[base+(size_t)row*D+d]=acc[d]/l;
}
extern "C" void solve(const float* q, const float* k, const float* v, float* out, int batch_heads, int seq_len, int head_dim, float scale, int causal){
  dim3 g((seq_len+127)/128,batch_heads);
  if(head_dim==64) fa<64><<<g,128>>>(q,k,v,out,seq_len,scale,causal);
  else fa<128><<<g,128>>>(q,k,v,out,seq_len,scale,causal);
}
