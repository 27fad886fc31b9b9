// Matrix products of warpgroups (wgmma) for Hopper, C = A B^T with wider accumulation: what the matrix units reach on
// random data that comes from memory, as in a library's product.
//
// Operands lie in global memory tile by tile, each tile in the very layout of shared memory, so that one-dimensional
// bulk copies bring it. A tile is ROWS x 128 bytes, K-major with the swizzle of 128 bytes: the 16-byte chunk c of row r
// lies at 128 r + 16 (c xor (r mod 8)) (PTX ISA, "Shared Memory Matrix Layout"). All types have the same bytes of K in
// a tile and in an instruction (32), hence the same time.
//
// One producer warp, two consumer warpgroups of 64 x 256 each. Two blocks of a cluster share the tile of B: either
// loads a half of it for both. A block keeps taking tiles of C, so that loads run ahead while results are written.
// C is written as bfloat16 in the order of the registers: for each tile, warpgroup and j < 16, the 128 threads' vectors
// of 8 elements.

#include "bulk.cuh"

enum Type { F16, BF16, TF32, E4M3 };

constexpr int STAGES = 4, K_BYTES = 128, TILE_M = 128, TILE_N = 256, GROUPS = 2, PANEL = 8;
constexpr u32 A_BYTES = TILE_M * K_BYTES, B_BYTES = TILE_N * K_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int THREADS = 128 * (GROUPS + 1);

__device__ void barrier_arrive(u32 barrier, u32 block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier), "r"(block) : "memory");
}

__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ void load_for_both(u32 target, const char* source, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1], %2, [%3], %4;"
                 ::"r"(target), "l"(source), "r"(bytes), "r"(barrier), "h"((unsigned short)3) : "memory");
}

// Matrix descriptor: address, then 1024 bytes from one group of 8 rows to the next, then the swizzle of 128 bytes.
__device__ u64 descriptor(u32 address) {
    return (u64)((address & 0x3FFFF) >> 4) | 1ull << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
              "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
#define REGISTERS \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
    "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83," \
    "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108," \
    "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA(shape, types, transposes) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n" \
                 "wgmma.mma_async.sync.aligned." shape ".f32." types " {" REGISTERS "}, %128, %129, p, 1, 1" \
                 transposes ";\n}" : D32(0), D32(32), D32(64), D32(96) : "l"(a), "l"(b), "r"(add))

template <Type T> __device__ void wgmma(float (&d)[128], u64 a, u64 b, u32 add) {
    if (T == F16) WGMMA("m64n256k16", "f16.f16", ", 0, 0");
    if (T == BF16) WGMMA("m64n256k16", "bf16.bf16", ", 0, 0");
    if (T == TF32) WGMMA("m64n256k8", "tf32.tf32", "");
    if (T == E4M3) WGMMA("m64n256k32", "e4m3.e4m3", "");
}

__device__ void hold(float (&d)[128]) {
#pragma unroll
    for (int i = 0; i < 128; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// One stage of K: four instructions of 32 bytes each, in flight when this returns.
template <Type T> __device__ void multiply(float (&d)[128], u32 a, u32 b, bool first) {
    hold(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < K_BYTES / 32; k++) wgmma<T>(d, descriptor(a) + 2 * k, descriptor(b) + 2 * k, !first || k);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    hold(d);
}

template <int IN_FLIGHT> __device__ void finish(float (&d)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(IN_FLIGHT) : "memory");
    hold(d);
}

__device__ u32 two(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ void store(uint4* c, const float (&d)[128], u32 tile, u32 group, u32 thread) {
#pragma unroll
    for (int j = 0; j < 16; j++) {
        const float* e = d + 8 * j;
        __stcs(c + ((u64)(tile * GROUPS + group) * 16 + j) * 128 + thread,
               make_uint4(two(e[0], e[1]), two(e[2], e[3]), two(e[4], e[5]), two(e[6], e[7])));
    }
}

// Tiles of C in panels of some columns, so that what runs at once shares rows of A and of B in L2.
template <int CLUSTER> __device__ void place(u32 pair, u32 pairs_m, u32 rank, u32& m, u32& n) {
    u32 panel = pair / (PANEL * pairs_m), within = pair % (PANEL * pairs_m);
    m = within / PANEL * CLUSTER + rank;
    n = panel * PANEL + within % PANEL;
}

// a: tiles_m x steps tiles of 128 rows; b: tiles_n x steps tiles of 256 rows; tiles_n is a multiple of PANEL, tiles_m
// and the grid of CLUSTER.
template <Type T, int CLUSTER>
__device__ void product(const char* a, const char* b, uint4* c, u32 tiles_m, u32 tiles_n, u32 steps) {
    extern __shared__ char dynamic[];
    __shared__ u64 barriers[2 * STAGES];
    u32 ring = (shared_address(dynamic) + 1023) & ~1023u, full = shared_address(barriers), empty = full + 8 * STAGES;
    u32 rank = CLUSTER > 1 ? cluster_rank() : 0, group = threadIdx.x / 128, thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (u32 s = 0; s < STAGES; s++) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 4 * GROUPS * CLUSTER);
        }
        barriers_visible();
    }
    cluster_sync();
    u32 pairs = tiles_m / CLUSTER * tiles_n, pairs_m = tiles_m / CLUSTER, m, n, slot = 0, parity = 0;
    auto advance = [&] {
        if (++slot == STAGES) slot = 0, parity ^= 1;
    };
    if (group == GROUPS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (thread == 0)
            for (u32 pair = blockIdx.x / CLUSTER; pair < pairs; pair += gridDim.x / CLUSTER) {
                place<CLUSTER>(pair, pairs_m, rank, m, n);
                for (u32 k = 0; k < steps; k++, advance()) {
                    u32 target = ring + slot * STAGE_BYTES, barrier = full + 8 * slot;
                    barrier_wait(empty + 8 * slot, parity ^ 1);
                    barrier_expect(barrier, STAGE_BYTES);
                    bulk_load(target, a + ((u64)m * steps + k) * A_BYTES, A_BYTES, barrier);
                    const char* from = b + ((u64)n * steps + k) * B_BYTES;
                    constexpr u32 part = B_BYTES / CLUSTER;
                    if (CLUSTER > 1) load_for_both(target + A_BYTES + rank * part, from + rank * part, part, barrier);
                    else bulk_load(target + A_BYTES, from, part, barrier);
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        float d[128];
        auto release = [&](u32 done) {
            if (thread % 32 < CLUSTER) barrier_arrive(empty + 8 * done, thread % 32);
        };
        for (u32 pair = blockIdx.x / CLUSTER; pair < pairs; pair += gridDim.x / CLUSTER) {
            place<CLUSTER>(pair, pairs_m, rank, m, n);
            u32 before = 0;
            for (u32 k = 0; k < steps; k++) {
                u32 source = ring + slot * STAGE_BYTES;
                barrier_wait(full + 8 * slot, parity);
                multiply<T>(d, source + group * (A_BYTES / GROUPS), source + A_BYTES, k == 0);
                finish<1>(d);
                if (k) release(before);
                before = slot;
                advance();
            }
            finish<0>(d);
            release(before);
            store(c, d, m * tiles_n + n, group, thread);
        }
    }
    __syncwarp();
    cluster_sync();  // neither block may end while the other writes into its memory or arrives at its barriers
}

// Products of the same STAGES tiles again and again: no memory traffic.
template <Type T> __device__ void resident(const char* a, uint4* c, u32 steps) {
    extern __shared__ char dynamic[];
    __shared__ u64 full;
    u32 ring = (shared_address(dynamic) + 1023) & ~1023u, barrier = shared_address(&full);
    u32 group = threadIdx.x / 128, thread = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        barrier_init(barrier, 1);
        barriers_visible();
        barrier_expect(barrier, STAGES * STAGE_BYTES);
        for (u32 s = 0; s < STAGES; s++)
            bulk_load(ring + s * STAGE_BYTES, a + ((u64)blockIdx.x * STAGES + s) * STAGE_BYTES, STAGE_BYTES, barrier);
    }
    __syncthreads();
    barrier_wait(barrier, 0);
    float d[128];
    for (u32 k = 0; k < steps; k++) {
        u32 source = ring + k % STAGES * STAGE_BYTES;
        multiply<T>(d, source + group * (A_BYTES / GROUPS), source + A_BYTES, k == 0);
        finish<1>(d);
    }
    finish<0>(d);
    store(c, d, blockIdx.x, group, thread);
}

#define PRODUCT(name, type) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(2, 1, 1) \
        product_##name(const char* a, const char* b, uint4* c, u32 m, u32 n, u32 k) { \
        product<type, 2>(a, b, c, m, n, k); \
    }

PRODUCT(f16, F16)
PRODUCT(bf16, BF16)
PRODUCT(tf32, TF32)
PRODUCT(e4m3, E4M3)

#ifdef VARIANTS  // to compare with
#define VARIANT(name, type) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        single_##name(const char* a, const char* b, uint4* c, u32 m, u32 n, u32 k) { \
        product<type, 1>(a, b, c, m, n, k); \
    } \
    extern "C" __global__ void __launch_bounds__(128 * GROUPS, 1) \
        resident_##name(const char* a, uint4* c, u32 k) { resident<type>(a, c, k); }

VARIANT(bf16, BF16)
VARIANT(e4m3, E4M3)
#endif
