// The toolkit's own, which defines the types of <stdint.h> for NVRTC in its own way; like nvcc it shall include them.
#pragma once
#include <cassert>
#include <nv/target>
#include <stdint.h>
#undef __CUDACC_RTC__
#include <../include/cuda_pipeline_helpers.h>
#define __CUDACC_RTC__ 1
