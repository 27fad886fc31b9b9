// The fixed-width types that nvcc makes visible unasked (<stdint.h> has them all).
#pragma once
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
