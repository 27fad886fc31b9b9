// The judge's own kernels around a measurement: disguises of inputs, comparison of outputs, fingerprints, and what puts
// the card into a known state before a window. None of them has variables of its own on the card.
#include "compare.cuh"
#include "disguise.cuh"

// Finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014), with the
// constants of Stafford's variant 13. A bijection of 64 bits.
__device__ U64 mix(U64 x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

__device__ void add_up(U64 value, U64 *slot)
{
    for (int other = 16; other; other /= 2) value += __shfl_xor_sync(~0u, value, other);
    if (threadIdx.x % 32 == 0 && value) atomicAdd(slot, value);
}

// Sum of mix(word ^ secret of its place) over 8-byte words: the order of threads does not matter, no change of one word
// keeps it, and who does not know the secrets cannot choose several changes that cancel. The last bytes are filled up
// with zeros. `odd` is odd, so that no two places share a secret.
extern "C" __global__ void __launch_bounds__(256)
    fingerprint(const uint4 *data, U64 nbytes, U64 secret, U64 odd, U64 *slot)
{
    const U64 units = nbytes / 16, step = (U64)gridDim.x * blockDim.x, me = (U64)blockIdx.x * blockDim.x + threadIdx.x;
    U64 sum = 0;
#pragma unroll 4
    for (U64 n = me; n < units; n += step) {
        const uint4 unit = __ldg(data + n);
        sum += mix(((U64)unit.y << 32 | unit.x) ^ (secret + 2 * n * odd));
        sum += mix(((U64)unit.w << 32 | unit.z) ^ (secret + (2 * n + 1) * odd));
    }
    if (me == 0 && nbytes % 16) {
        const unsigned char *rest = (const unsigned char *)(data + units);
        U64 low = 0, high = 0;
        for (unsigned k = 0; k < nbytes % 16; ++k) (k < 8 ? low : high) |= (U64)rest[k] << k % 8 * 8;
        sum += mix(low ^ (secret + 2 * units * odd)) + mix(high ^ (secret + (2 * units + 1) * odd));
    }
    add_up(sum, slot);
}

// Little-endian word of up to four bytes, which need not be aligned.
__device__ unsigned word_at(const unsigned char *bytes, U64 count)
{
    unsigned word = 0;
    for (unsigned k = 0; k < 4 && k < count; ++k) word |= (unsigned)bytes[k] << 8 * k;
    return word;
}

// Number of 4-byte words that differ.
extern "C" __global__ void __launch_bounds__(256)
    differences(const unsigned char *data, const unsigned char *pattern, U64 nbytes, U64 *slot)
{
    const bool aligned = ((U64)data | (U64)pattern) % 4 == 0;
    const U64 words = (nbytes + 3) / 4, step = (U64)gridDim.x * blockDim.x;
    U64 count = 0;
    for (U64 n = (U64)blockIdx.x * blockDim.x + threadIdx.x; n < words; n += step) {
        if (aligned && 4 * n + 4 <= nbytes)
            count += ((const unsigned *)data)[n] != ((const unsigned *)pattern)[n];
        else
            count += word_at(data + 4 * n, nbytes - 4 * n) != word_at(pattern + 4 * n, nbytes - 4 * n);
    }
    add_up(count, slot);
}

extern "C" __global__ void __launch_bounds__(256) write_all(uint4 *data, U64 units)
{
    const U64 step = (U64)gridDim.x * blockDim.x;
    for (U64 n = (U64)blockIdx.x * blockDim.x + threadIdx.x; n < units; n += step)
        data[n] = make_uint4(n, n >> 32, ~n, 0);
}

// Reads everything; `never` is a value that the sum does not have, unknown to the compiler.
extern "C" __global__ void __launch_bounds__(256) read_all(const uint4 *data, U64 units, unsigned never, unsigned *sink)
{
    const U64 step = (U64)gridDim.x * blockDim.x;
    unsigned any = 0;
#pragma unroll 4
    for (U64 n = (U64)blockIdx.x * blockDim.x + threadIdx.x; n < units; n += step) {
        const uint4 unit = __ldcg(data + n);
        any |= unit.x | unit.y | unit.z | unit.w;
    }
    if (any == never) *sink = any;
}

extern "C" __global__ void __launch_bounds__(1024) poison_shared(unsigned word, unsigned words)
{
    extern __shared__ unsigned memory[];
    volatile unsigned *everything = memory;  // nobody reads it here, and the stores must stay
    for (unsigned n = threadIdx.x; n < words; n += blockDim.x) everything[n] = word;
}

// Fills BYTES of local memory of every thread. Frames end where the local memory of a thread ends, so that a frame
// covers every smaller one of another kernel. `stride` is odd and unknown to the compiler: the array stays in memory.
template <int BYTES>
__device__ void fill_local(unsigned word, unsigned stride, unsigned *sink)
{
    constexpr unsigned words = BYTES / 4;
    unsigned memory[words];
    for (unsigned n = 0, at = 0; n < words; ++n, at = (at + stride) % words) memory[at] = word;
    if (memory[stride % words] != word) *sink = word;
}

extern "C" __global__ void __launch_bounds__(1024) poison_local_1024(unsigned word, unsigned stride, unsigned *sink)
{
    fill_local<1024>(word, stride, sink);
}

extern "C" __global__ void __launch_bounds__(1024) poison_local_8192(unsigned word, unsigned stride, unsigned *sink)
{
    fill_local<8192>(word, stride, sink);
}

extern "C" __global__ void __launch_bounds__(1024) poison_local_32768(unsigned word, unsigned stride, unsigned *sink)
{
    fill_local<32768>(word, stride, sink);
}

// target = source under a pad that follows from a secret; once more takes it off again.
extern "C" __global__ void __launch_bounds__(256)
    seal(unsigned *target, const unsigned *source, U64 words, U64 secret, U64 odd)
{
    const U64 step = (U64)gridDim.x * blockDim.x;
    for (U64 n = (U64)blockIdx.x * blockDim.x + threadIdx.x; n < words; n += step)
        target[n] = source[n] ^ (unsigned)mix(secret + n * odd);
}

// Keeps the stream busy, so that the host can queue everything behind it.
extern "C" __global__ void hold(U64 nanoseconds)
{
    U64 begun, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begun));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begun < nanoseconds);
}
