// Inputs under a disguise: target[i, j, k, l] = source[gather0[i], gather1[j], ...] * scale0[i] * scale1[j] * ...
//
// A thread makes one unit, 16 bytes of the last axis, or one element where rows are no multiple of that. Neighbouring
// threads read neighbouring bytes of a row; a gather along the last axis picks them out of the L1 cache, in which the
// row lies after the first touch.
#pragma once
#include "elements.cuh"

struct Disguise {
    void *target;
    const void *source;
    U64 units;  // below 2^32
    Change change;
};

template <typename Bits, int WIDTH>
union Unit;
template <typename Bits>
union Unit<Bits, 1> {
    Bits whole, element[1];
};
template <>
union Unit<unsigned, 4> {
    uint4 whole;
    unsigned element[4];
};
template <>
union Unit<unsigned short, 8> {
    uint4 whole;
    unsigned short element[8];
};
template <>
union Unit<unsigned char, 16> {
    uint4 whole;
    unsigned char element[16];
};

__device__ inline int4 load_four(const int *table) { return __ldg((const int4 *)table); }
__device__ inline float4 load_four(const float *table) { return __ldg((const float4 *)table); }

// Neighbouring values of an axis' table, which starts at a multiple of 16 bytes; ones where there is no table.
template <typename T, int WIDTH>
struct Several {
    T value[WIDTH];

    __device__ Several()
    {
#pragma unroll
        for (int n = 0; n < WIDTH; ++n) value[n] = 1;
    }

    __device__ explicit Several(const T *table)
    {
        if constexpr (WIDTH == 1) {
            value[0] = __ldg(table);
        } else {
#pragma unroll
            for (int n = 0; n < WIDTH; n += 4) {
                const auto four = load_four(table + n);
                value[n] = four.x, value[n + 1] = four.y, value[n + 2] = four.z, value[n + 3] = four.w;
            }
        }
    }
};

template <typename E, bool SCALED, int WIDTH>
__device__ void disguise(const Disguise &p)
{
    using Bits = typename E::Bits;
    using Whole = decltype(Unit<Bits, WIDTH>::whole);
    const Change &change = p.change;
    const unsigned columns = change.shape[3] / WIDTH;
    const U64 step = (U64)gridDim.x * blockDim.x;
    for (U64 number = (U64)blockIdx.x * blockDim.x + threadIdx.x; number < p.units; number += step) {
        const unsigned row = (unsigned)number / columns, first = (unsigned)number % columns * WIDTH;
        const Row place(change, row);
        const Bits *source = (const Bits *)p.source + place.old * change.shape[3];
        Unit<Bits, WIDTH> unit;
        if (const int *gather = change.gather[3]) {
            const Several<int, WIDTH> index(gather + first);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n) unit.element[n] = __ldg(source + index.value[n]);
        } else {
            unit.whole = __ldg((const Whole *)(source + first));
        }
        if constexpr (SCALED) {
            Several<float, WIDTH> factor;
            if (change.scale[3]) factor = Several<float, WIDTH>(change.scale[3] + first);
#pragma unroll
            for (int n = 0; n < WIDTH; ++n)
                unit.element[n] = E::encode(E::decode(unit.element[n]) * (place.factor * factor.value[n]));
        }
        ((Whole *)p.target)[number] = unit.whole;
    }
}

#define DISGUISE(NAME, TYPE, SCALED, WIDTH)                                            \
    extern "C" __global__ void __launch_bounds__(256) NAME##_wide(const Disguise p)   \
    {                                                                                  \
        disguise<TYPE, SCALED, WIDTH>(p);                                              \
    }                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) NAME##_single(const Disguise p) \
    {                                                                                  \
        disguise<TYPE, SCALED, 1>(p);                                                  \
    }

DISGUISE(gather_4, Opaque<unsigned>, false, 4)
DISGUISE(gather_2, Opaque<unsigned short>, false, 8)
DISGUISE(gather_1, Opaque<unsigned char>, false, 16)
DISGUISE(scale_float32, Float32, true, 4)
DISGUISE(scale_float16, Float16, true, 8)
DISGUISE(scale_bfloat16, BFloat16, true, 8)
DISGUISE(scale_float8_e4m3, Float8E4M3, true, 16)
