// Outputs under a disguise against the undisguised float64 reference; the figures are those of harness/check.py.
//
// Each block leaves its part, and one further block merges the parts in a fixed order, so that figures repeat to the bit.
#pragma once
#include "elements.cuh"

constexpr int COMPARE_THREADS = 256;

struct Figures {
    double worst_max;   // rows: max |e| / rms(row); elements: |e| / what is allowed
    double worst_norm;  // rows: sqrt(mean e^2) / rms(row)
    double square_sum;  // of e, rows only
    double ratio;       // worst figure over its limit
    U64 worst_row;      // where that is, in the undisguised order; the first such
    U64 nonfinite;      // elements that are not finite although the reference is
    U64 poisoned;       // elements in words that nobody wrote
};

struct Compare {
    const void *found;
    const double *expected;
    const double *rms;  // one a row; rows only
    Figures *parts;     // one a block
    double limits[2];   // of worst_max and worst_norm; rows only
    U64 rows;           // below 2^32
    Change change;
    unsigned poison;
};

// The parameters in registers, read at the start: left to itself the compiler reads them through a computed address,
// which the emulator does not know.
__device__ Compare pinned(const Compare &parameters)
{
    constexpr int WORDS = sizeof(Compare) / sizeof(U64);
    static_assert(WORDS * sizeof(U64) == sizeof(Compare));
    Compare copy = parameters;
#pragma unroll
    for (int n = 0; n < WORDS; ++n) asm volatile("" : "+l"(((U64 *)&copy)[n]));
    return copy;
}

__device__ Figures nothing() { return {0, 0, 0, -1, ~0ull, 0, 0}; }

// Whether x counts as the larger: NaN does, against any number.
__device__ bool beats(double x, double y) { return x > y || (x != x && y == y); }

__device__ double larger(double x, double y) { return beats(y, x) ? y : x; }

__device__ void rank(Figures &figures, double ratio, U64 row)
{
    if (beats(ratio, figures.ratio) || (!beats(figures.ratio, ratio) && row < figures.worst_row)) {
        figures.ratio = ratio;
        figures.worst_row = row;
    }
}

__device__ void merge(Figures &into, const Figures &other)
{
    into.worst_max = larger(into.worst_max, other.worst_max);
    into.worst_norm = larger(into.worst_norm, other.worst_norm);
    into.square_sum += other.square_sum;
    into.nonfinite += other.nonfinite;
    into.poisoned += other.poisoned;
    rank(into, other.ratio, other.worst_row);
}

__device__ void merge_block(const Figures &mine, Figures *result)
{
    __shared__ Figures all[COMPARE_THREADS];
    all[threadIdx.x] = mine;
    for (unsigned half = COMPARE_THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) merge(all[threadIdx.x], all[threadIdx.x + half]);
    }
    if (threadIdx.x == 0) *result = all[0];
}

// 0 / 0 is 0: a row that is zero throughout came out zero.
__device__ double over(double error, double size) { return error == 0 ? 0 : error / size; }

// Whether a whole word around an element is poison: a part of it can be a number of a narrow type. Of the last bytes,
// which fill no word, this is not told.
template <typename Bits>
__device__ bool poisoned(const Compare &p, size_t index)
{
    const size_t word = index * sizeof(Bits) / 4;
    const size_t words = p.rows * p.change.shape[3] * sizeof(Bits) / 4;
    return word < words && ((const unsigned *)p.found)[word] == p.poison;
}

// |e| of an element whose factor is taken away; counts what is not finite and what was never written.
template <typename E>
__device__ double distance(const Compare &p, size_t index, float factor, double expected, Figures &figures)
{
    using Bits = typename E::Bits;
    const Bits bits = ((const Bits *)p.found)[index];
    figures.poisoned += poisoned<Bits>(p, index);
    const double value = (double)E::decode(bits) / factor;
    figures.nonfinite += !isfinite(value) && isfinite(expected);
    if (value == expected) return 0;
    const double e = fabs(value - expected);
    return isfinite(e) ? e : __longlong_as_double(0x7FF0000000000000ll);
}

// A warp takes a row.
template <typename E>
__device__ void compare_rows(const Compare &p)
{
    const unsigned lane = threadIdx.x % 32, length = p.change.shape[3];
    const U64 step = (U64)gridDim.x * (COMPARE_THREADS / 32);
    Figures figures = nothing();
    for (U64 row = (U64)blockIdx.x * (COMPARE_THREADS / 32) + threadIdx.x / 32; row < p.rows; row += step) {
        const Row place(p.change, (unsigned)row);
        const double *expected = p.expected + place.old * length;
        double worst = 0, sum = 0;
        for (unsigned k = lane; k < length; k += 32) {
            const float factor = place.factor * p.change.factor(3, k);
            const double e = distance<E>(p, row * length + k, factor, expected[p.change.old(3, k)], figures);
            worst = fmax(worst, e);
            sum += e * e;
        }
        for (int other = 16; other; other /= 2) {
            worst = fmax(worst, __shfl_xor_sync(~0u, worst, other));
            sum += __shfl_xor_sync(~0u, sum, other);
        }
        if (lane) continue;
        const double a = over(worst, p.rms[place.old]), b = over(sqrt(sum / length), p.rms[place.old]);
        figures.worst_max = larger(figures.worst_max, a);
        figures.worst_norm = larger(figures.worst_norm, b);
        figures.square_sum += sum;
        rank(figures, larger(a / p.limits[0], b / p.limits[1]), place.old);
    }
    merge_block(figures, p.parts + blockIdx.x);
}

// A thread takes an element.
template <typename E>
__device__ void compare_elements(const Compare &p)
{
    const unsigned length = p.change.shape[3];
    const U64 elements = p.rows * length, step = (U64)gridDim.x * COMPARE_THREADS;
    Figures figures = nothing();
    for (U64 index = (U64)blockIdx.x * COMPARE_THREADS + threadIdx.x; index < elements; index += step) {
        const Row place(p.change, (unsigned)(index / length));
        const unsigned k = (unsigned)(index % length);
        const U64 old = place.old * length + p.change.old(3, k);
        const double expected = p.expected[old];
        const double e = distance<E>(p, index, place.factor * p.change.factor(3, k), expected, figures);
        const double ratio = e / (1e-5 + 1e-6 * (isfinite(expected) ? fabs(expected) : 0));
        figures.worst_max = larger(figures.worst_max, ratio);
        rank(figures, ratio, old);
    }
    merge_block(figures, p.parts + blockIdx.x);
}

#define COMPARE(NAME, TYPE)                                                                                 \
    extern "C" __global__ void __launch_bounds__(COMPARE_THREADS) compare_rows_##NAME(const Compare p)     \
    {                                                                                                       \
        compare_rows<TYPE>(pinned(p));                                                                              \
    }                                                                                                       \
    extern "C" __global__ void __launch_bounds__(COMPARE_THREADS) compare_elements_##NAME(const Compare p) \
    {                                                                                                       \
        compare_elements<TYPE>(pinned(p));                                                                          \
    }

COMPARE(float32, Float32)
COMPARE(float16, Float16)
COMPARE(bfloat16, BFloat16)
COMPARE(float8_e4m3, Float8E4M3)

extern "C" __global__ void __launch_bounds__(COMPARE_THREADS)
    merge_figures(const Figures *parts, U64 count, Figures *result)
{
    Figures figures = nothing();
    for (U64 n = threadIdx.x; n < count; n += COMPARE_THREADS) merge(figures, parts[n]);
    merge_block(figures, result);
}
