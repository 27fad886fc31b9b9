// <stdlib.h>: malloc and free come with the compiler.
#pragma once
#include <judge/host_only.h>
#include <stddef.h>
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
extern "C" {
__device__ void judge_exit(int status);
__device__ void* judge_calloc(size_t count, size_t size);
}
JUDGE_HOST void exit(int status) { judge_exit(status); }
JUDGE_HOST void abort() { judge_exit(134); }
JUDGE_HOST void* calloc(size_t count, size_t size) { return judge_calloc(count, size); }
