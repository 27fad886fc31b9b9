// Matrix products of warps (mma.sync), C = A B^T with float32 accumulation: what the matrix units of Turing, Ampere,
// Ada and the smaller Blackwell cards reach on random data in shared memory.
//
// A block keeps SLABS slabs of 128 rows x 32 bytes of A and of B, and multiplies them again and again into its
// 128 x 128 of C. A slab is two halves of 128 rows x 16 bytes, so that the eight rows which ldmatrix takes at once lie
// in different banks. All types have the same bytes of K in an instruction, hence the same loads.

typedef unsigned int u32;

constexpr int SLABS = 6, ROWS = 128, HALF_BYTES = ROWS * 16, SLAB_BYTES = 2 * HALF_BYTES, THREADS = 256;
constexpr int PARTS_M = 4, PARTS_N = 4;  // of a warp: 4 x 16 rows, 4 x 8 columns

enum Type { F16, BF16, TF32, E4M3 };

#define ACCUMULATORS "{%0, %1, %2, %3}"
#define D4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define MMA(text) \
    asm volatile("mma.sync.aligned." text " " ACCUMULATORS ", {%4, %5, %6, %7}, {%8, %9}, " ACCUMULATORS ";" \
                 : D4 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

// 32 bytes of K.
template <Type T> __device__ void mma(float* d, const u32* a, const u32* b) {
#if __CUDA_ARCH__ >= 800
    if (T == F16) MMA("m16n8k16.row.col.f32.f16.f16.f32");
    if (T == BF16) MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
    if (T == TF32) MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
#if __CUDA_ARCH__ >= 890
    if (T == E4M3) MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32");
#endif
#else
    for (int half = 0; half < 2; half++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " ACCUMULATORS ", {%4, %5}, {%6}, "
                     ACCUMULATORS ";" : D4 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

// Four matrices of 8 rows x 16 bytes; each lane has the address of one row.
__device__ void load(u32* to, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
}

// operands: for each block, SLABS slabs of A, then of B. c: for each block 128 x 128, by rows.
template <Type T> __device__ void resident(const uint4* operands, float* c, u32 rounds) {
    __shared__ __align__(128) uint4 slabs[2 * SLABS * SLAB_BYTES / 16];
    constexpr u32 vectors = sizeof(slabs) / 16;
    for (u32 i = threadIdx.x; i < vectors; i += THREADS) slabs[i] = operands[blockIdx.x * vectors + i];
    __syncthreads();
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp % 2 * 64, column = warp / 2 * 32;
    u32 base = (u32)__cvta_generic_to_shared(slabs);
    // A: rows 0-7 and 8-15 of the first half, then of the second; B: both halves of columns 0-7, then of 8-15
    u32 at_a = base + (lane / 16) * HALF_BYTES + (row + lane % 16) * 16;
    u32 at_b = base + SLABS * SLAB_BYTES + (lane / 8 % 2) * HALF_BYTES + (column + lane / 16 * 8 + lane % 8) * 16;
    float d[PARTS_M][PARTS_N][4] = {};
    for (u32 round = 0; round < rounds; round++) {
#pragma unroll 3
        for (int slab = 0; slab < SLABS; slab++) {
            u32 a[PARTS_M][4], b[PARTS_N / 2][4];
#pragma unroll
            for (int i = 0; i < PARTS_M; i++) load(a[i], at_a + slab * SLAB_BYTES + i * 256);
#pragma unroll
            for (int j = 0; j < PARTS_N / 2; j++) load(b[j], at_b + slab * SLAB_BYTES + j * 256);
#pragma unroll
            for (int i = 0; i < PARTS_M; i++)
#pragma unroll
                for (int j = 0; j < PARTS_N; j++) mma<T>(d[i][j], a[i], b[j / 2] + 2 * (j % 2));
        }
    }
    float* tile = c + blockIdx.x * ROWS * ROWS + (row + lane / 4) * ROWS + column + lane % 4 * 2;
    for (int i = 0; i < PARTS_M; i++)
        for (int j = 0; j < PARTS_N; j++)
            for (int e = 0; e < 4; e++) tile[(i * 16 + e / 2 * 8) * ROWS + j * 8 + e % 2] = d[i][j][e];
}

#define KERNEL(name, type) \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        resident_##name(const uint4* operands, float* c, u32 rounds) { resident<type>(operands, c, rounds); }

KERNEL(f16, F16)
#if __CUDA_ARCH__ >= 800
KERNEL(bf16, BF16)
KERNEL(tf32, TF32)
#endif
#if __CUDA_ARCH__ >= 890
KERNEL(e4m3, E4M3)
#endif
