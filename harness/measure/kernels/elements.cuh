// Element types as the judge's kernels see them: their bits, and the float that the bits stand for. Every float of these
// types fits a float32, so decode() is exact; encode() rounds to nearest, which a product with a power of two never
// needs unless it leaves the type's range.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

using U64 = unsigned long long;

struct Float32 {
    using Bits = unsigned;
    static __device__ float decode(Bits bits) { return __uint_as_float(bits); }
    static __device__ Bits encode(float value) { return __float_as_uint(value); }
};

struct Float16 {
    using Bits = unsigned short;
    static __device__ float decode(Bits bits) { return __half2float(__ushort_as_half(bits)); }
    static __device__ Bits encode(float value) { return __half_as_ushort(__float2half_rn(value)); }
};

struct BFloat16 {
    using Bits = unsigned short;
    static __device__ float decode(Bits bits) { return __uint_as_float((unsigned)bits << 16); }
    static __device__ Bits encode(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
};

struct Float8E4M3 {
    using Bits = unsigned char;
    static __device__ float decode(Bits bits) { return __half2float(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)); }
    static __device__ Bits encode(float value) { return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3); }
};

// Bits that are moved and never looked at.
template <typename T>
struct Opaque {
    using Bits = T;
    static __device__ float decode(Bits bits) { return 0.0f; }
    static __device__ Bits encode(float value) { return 0; }
};

// Changes of a tensor of four axes (harness/disguise.py); null pointers where an axis has no change.
struct Change {
    const int *gather[4];
    const float *scale[4];
    unsigned shape[4];

    __device__ unsigned old(int axis, unsigned index) const { return gather[axis] ? gather[axis][index] : index; }
    __device__ float factor(int axis, unsigned index) const { return scale[axis] ? scale[axis][index] : 1.0f; }
};

// A place along the first three axes, by its number: its old number, and the product of its three factors.
struct Row {
    size_t old;
    float factor;

    __device__ Row(const Change &change, unsigned number)
    {
        unsigned k = number % change.shape[2], rest = number / change.shape[2];
        unsigned j = rest % change.shape[1], i = rest / change.shape[1];
        old = ((size_t)change.old(0, i) * change.shape[1] + change.old(1, j)) * change.shape[2] + change.old(2, k);
        factor = change.factor(0, i) * change.factor(1, j) * change.factor(2, k);
    }
};
