// What a card's memory and its scalar units reach: copies, reads, float32 multiply-adds; and the random data for them.
// Counts of vectors and chunks are multiples of what a block takes at once: the host sees to that.
#if __CUDA_ARCH__ >= 900
#include "bulk.cuh"
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

// Two rounds of a 64-bit finaliser (the constants are those of splitmix64): random bits of a counter.
__device__ u64 random_bits(u64 counter) {
    u64 x = counter * 0x9E3779B97F4A7C15ull + 0xD1B54A32D192ED03ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

__device__ u32 sum_of(uint4 v) { return v.x + v.y + v.z + v.w; }

__device__ void keep(u32* total, u32 sum) {
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, apart);
    if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

extern "C" __global__ void fill_bits(uint4* to, u64 vectors, u64 seed) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += stride) {
        u64 low = random_bits(seed + 2 * i), high = random_bits(seed + 2 * i + 1);
        to[i] = make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
    }
}

// Random numbers of about a normal distribution, mean 0, variance 1: the sum of eight numbers of 16 bits, exact in
// float32, times one over its deviation.
__device__ float normal(u64 counter) {
    u64 a = random_bits(2 * counter), b = random_bits(2 * counter + 1);
    int sum = -4 * 65535;
#pragma unroll
    for (int i = 0; i < 64; i += 16) sum += (int)(a >> i & 0xFFFF) + (int)(b >> i & 0xFFFF);
    return sum * (1 / 53510.0f);
}

// The bits of four floats as 4 / PER words of the type.
struct F16 {
    static constexpr int PER = 2;
    static __device__ u32 word(const float* x) {
        u32 bits;
        asm("{\n.reg .b16 l, h;\ncvt.rn.f16.f32 l, %1;\ncvt.rn.f16.f32 h, %2;\nmov.b32 %0, {l, h};\n}"
            : "=r"(bits) : "f"(x[0]), "f"(x[1]));
        return bits;
    }
};
#if __CUDA_ARCH__ >= 800
struct BF16 {
    static constexpr int PER = 2;
    static __device__ u32 word(const float* x) {
        u32 bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(x[1]), "f"(x[0]));
        return bits;
    }
};
struct TF32 {
    static constexpr int PER = 1;
    static __device__ u32 word(const float* x) {
        u32 bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x[0]));
        return bits;
    }
};
#endif
#if __CUDA_ARCH__ >= 890
struct E4M3 {
    static constexpr int PER = 4;
    static __device__ u32 word(const float* x) {
        u32 bits;
        asm("{\n.reg .b16 l, h;\ncvt.rn.satfinite.e4m3x2.f32 l, %2, %1;\ncvt.rn.satfinite.e4m3x2.f32 h, %4, %3;\n"
            "mov.b32 %0, {l, h};\n}" : "=r"(bits) : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]));
        return bits;
    }
};
#endif

template <class T> __device__ void fill(u32* to, u64 words, u64 seed) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
        float x[T::PER];
#pragma unroll
        for (int e = 0; e < T::PER; e++) x[e] = normal(seed + i * T::PER + e);
        to[i] = T::word(x);
    }
}

extern "C" __global__ void fill_f16(u32* to, u64 words, u64 seed) { fill<F16>(to, words, seed); }
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void fill_bf16(u32* to, u64 words, u64 seed) { fill<BF16>(to, words, seed); }
extern "C" __global__ void fill_tf32(u32* to, u64 words, u64 seed) { fill<TF32>(to, words, seed); }
#endif
#if __CUDA_ARCH__ >= 890
extern "C" __global__ void fill_e4m3(u32* to, u64 words, u64 seed) { fill<E4M3>(to, words, seed); }
#endif

constexpr int FLIGHT = 4;  // 16-byte vectors of a thread that are on their way at once

extern "C" __global__ void __launch_bounds__(512)
    copy(const uint4* __restrict__ from, uint4* __restrict__ to, u64 vectors) {
    u64 part = (u64)blockDim.x * FLIGHT;
    for (u64 base = blockIdx.x * part + threadIdx.x; base < vectors; base += gridDim.x * part) {
        uint4 v[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) v[i] = __ldcs(from + base + i * blockDim.x);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) __stcs(to + base + i * blockDim.x, v[i]);
    }
}

extern "C" __global__ void __launch_bounds__(512) read(const uint4* __restrict__ from, u32* total, u64 vectors) {
    constexpr int DEEP = 2 * FLIGHT;
    u64 part = (u64)blockDim.x * DEEP;
    u32 sum = 0;
    for (u64 base = blockIdx.x * part + threadIdx.x; base < vectors; base += gridDim.x * part) {
        uint4 v[DEEP];
#pragma unroll
        for (int i = 0; i < DEEP; i++) v[i] = __ldcs(from + base + i * blockDim.x);
#pragma unroll
        for (int i = 0; i < DEEP; i++) sum += sum_of(v[i]);
    }
    keep(total, sum);
}

// Each pair turns about the origin by two shears, each one multiply-add: nothing grows, settles or repeats.
constexpr int PAIRS = 8, UNROLL = 16;

extern "C" __global__ void __launch_bounds__(256) multiply_add(float* out, u32 rounds, u64 seed) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    float u[PAIRS], v[PAIRS];
    float turn = 0.25f + (float)(u32)(random_bits(seed + thread) >> 40) * 0x1p-25f;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        u64 bits = random_bits(seed + (thread + 1) * PAIRS + i);
        u[i] = (float)(int)(u32)bits * 0x1p-31f;
        v[i] = (float)(int)(u32)(bits >> 32) * 0x1p-31f;
    }
    for (u32 round = 0; round < rounds; round++) {
#pragma unroll
        for (int step = 0; step < UNROLL; step++) {
#pragma unroll
            for (int i = 0; i < PAIRS; i++) u[i] = __fmaf_rn(-turn, v[i], u[i]);
#pragma unroll
            for (int i = 0; i < PAIRS; i++) v[i] = __fmaf_rn(turn, u[i], v[i]);
        }
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) sum += u[i] + v[i];
    out[thread] = sum;
}

#if __CUDA_ARCH__ >= 900
// The same by bulk copies through shared memory: one thread a block, a ring of chunks.
constexpr u32 CHUNK = 16384, RING = 6, LAG = 2;

template <bool STORE> __device__ void bulk(const char* from, char* to, u64 chunks) {
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 full[RING];
    if (threadIdx.x) return;
    for (u32 s = 0; s < RING; s++) barrier_init(shared_address(full + s), 1);
    barriers_visible();
    constexpr u32 lag = STORE ? LAG : 0;
    u64 mine = chunks > blockIdx.x ? (chunks - blockIdx.x - 1) / gridDim.x + 1 : 0;
    auto place = [&](u64 i) { return (blockIdx.x + i * gridDim.x) * CHUNK; };
    auto load = [&](u64 i) {
        u32 slot = (u32)(i % RING), barrier = shared_address(full + slot);
        barrier_expect(barrier, CHUNK);
        bulk_load(shared_address(ring) + slot * CHUNK, from + place(i), CHUNK, barrier);
    };
    for (u64 i = 0; i < RING && i < mine; i++) load(i);
    for (u64 i = 0; i < mine; i++) {
        barrier_wait(shared_address(full + i % RING), (u32)(i / RING) & 1);
        if (STORE) {
            u32 source = shared_address(ring) + (u32)(i % RING) * CHUNK;
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         ::"l"(to + place(i)), "r"(source), "r"(CHUNK) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LAG) : "memory");
        }
        if (i + 1 > lag && i - lag + RING < mine) load(i - lag + RING);
    }
    if (STORE) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(32) copy_bulk(const char* from, char* to, u64 chunks) {
    bulk<true>(from, to, chunks);
}
extern "C" __global__ void __launch_bounds__(32) read_bulk(const char* from, char* to, u64 chunks) {
    bulk<false>(from, to, chunks);
}
#endif
