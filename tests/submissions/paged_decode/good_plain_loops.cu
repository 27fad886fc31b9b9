#include <cuda_runtime.h>
// one thread per (seq, head): very naive
__global__ void pd(const float* q,const float* kc,const float* vc,const int* bt,const int* cl,float* out,int B,int H,int G,int D,int P,int MB,float scale){
  int i=blockIdx.x*blockDim.x+threadIdx.x; if(i>=B*H) return;
  int b=i/H,h=i%H,g=h/(H/G); int n=cl[b];
  float acc[128]; for(int d=0;d<128;d++) acc[d]=0;
  float mx=-INFINITY,l=0;
  for(int t=0;t<n;t++){
    int pg=bt[b*MB+t/P]; size_t o=(((size_t)pg*P+t%P)*G+g)*D;
    float s=0; for(int d=0;d<D;d++) s+=q[(size_t)i*D+d]*kc[o+d]; s*=scale;
    float mn=fmaxf(mx,s),c=expf(mx-mn),p=expf(s-mn); l=l*c+p;
    for(int d=0;d<D;d++) acc[d]=acc[d]*c+p*vc[o+d]; mx=mn;
  }
  for(int d=0;d<D;d++) out[(size_t)i*D+d]= n>0? acc[d]/l : 0.f;
}
extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, const int* block_table,
                      const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads,
                      int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale){ int n=num_seqs*num_heads; pd<<<(n+63)/64,64>>>(q,k_cache,v_cache,block_table,context_lens,out,num_seqs,num_heads,num_kv_heads,head_dim,page_size,max_blocks_per_seq,scale); }
