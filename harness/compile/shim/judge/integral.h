// The integer overloads of the mathematical functions: as under nvcc they give a double and belong to the host alone.
#pragma once
#include <judge/host_only.h>

extern "C" __device__ void judge_host_only_integer_math();

namespace judge {
template <typename T> struct Integer {};
template <> struct Integer<bool> { typedef double type; };
template <> struct Integer<char> { typedef double type; };
template <> struct Integer<signed char> { typedef double type; };
template <> struct Integer<unsigned char> { typedef double type; };
template <> struct Integer<short> { typedef double type; };
template <> struct Integer<unsigned short> { typedef double type; };
template <> struct Integer<int> { typedef double type; };
template <> struct Integer<unsigned> { typedef double type; };
template <> struct Integer<long> { typedef double type; };
template <> struct Integer<unsigned long> { typedef double type; };
template <> struct Integer<long long> { typedef double type; };
template <> struct Integer<unsigned long long> { typedef double type; };

template <typename T> struct Number : Integer<T> {};
template <> struct Number<float> { typedef double type; };
template <> struct Number<double> { typedef double type; };

// Mixed arguments, such as (int, float), promote to double; (float, float) and (double, double) have their own.
template <typename A, typename B> struct Mixed {
  typedef typename Number<A>::type first;
  typedef typename Number<B>::type type;
};
template <> struct Mixed<float, float> {};
template <> struct Mixed<double, double> {};
}  // namespace judge

#define JUDGE_INTEGER_1(name)                                             \
  template <typename T>                                                   \
  JUDGE_HOST constexpr typename judge::Integer<T>::type name(T x) {       \
    JUDGE_HOST_ONLY(judge_host_only_integer_math);                        \
    return name(static_cast<double>(x));                                  \
  }
#define JUDGE_INTEGER_2(name)                                                \
  template <typename A, typename B>                                          \
  JUDGE_HOST constexpr typename judge::Mixed<A, B>::type name(A x, B y) {    \
    JUDGE_HOST_ONLY(judge_host_only_integer_math);                           \
    return name(static_cast<double>(x), static_cast<double>(y));             \
  }
JUDGE_INTEGER_1(sqrt) JUDGE_INTEGER_1(cbrt) JUDGE_INTEGER_1(exp) JUDGE_INTEGER_1(exp2) JUDGE_INTEGER_1(expm1)
JUDGE_INTEGER_1(log) JUDGE_INTEGER_1(log2) JUDGE_INTEGER_1(log10) JUDGE_INTEGER_1(log1p) JUDGE_INTEGER_1(sin)
JUDGE_INTEGER_1(cos) JUDGE_INTEGER_1(tan) JUDGE_INTEGER_1(tanh) JUDGE_INTEGER_1(sinh) JUDGE_INTEGER_1(cosh)
JUDGE_INTEGER_1(asin) JUDGE_INTEGER_1(acos) JUDGE_INTEGER_1(atan) JUDGE_INTEGER_1(ceil) JUDGE_INTEGER_1(floor)
JUDGE_INTEGER_1(round) JUDGE_INTEGER_1(trunc) JUDGE_INTEGER_1(rint) JUDGE_INTEGER_1(fabs) JUDGE_INTEGER_1(erf)
JUDGE_INTEGER_2(fmax) JUDGE_INTEGER_2(fmin) JUDGE_INTEGER_2(fmod) JUDGE_INTEGER_2(atan2) JUDGE_INTEGER_2(hypot)

// pow alone is there for kernels too; the compiler brings pow(float, int) and pow(double, int).
template <typename A, typename B>
__device__ __forceinline__ constexpr typename judge::Mixed<A, B>::type pow(A x, B y) {
  return pow(static_cast<double>(x), static_cast<double>(y));
}
#undef JUDGE_INTEGER_1
#undef JUDGE_INTEGER_2
