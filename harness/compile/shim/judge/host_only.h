// What nvcc knows as a __host__ function has no such mark here, since solve() itself is compiled for the device. Using
// one leaves a call of a judge_host_only_* function in the PTX: the compile step refuses a kernel that reaches it
// (harness/compile/callgraph.py), and solve() may call it freely.
// JUDGE_HOST_ONLY is for constexpr functions: a constant expression is free of it.
#pragma once
#define JUDGE_HOST __device__ __forceinline__
#define JUDGE_HOST_ONLY(function) \
  if (!__builtin_is_constant_evaluated()) function()
