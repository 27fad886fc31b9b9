// The CUDA runtime as solve() sees it. solve() is compiled for the device and evaluated by the judge: what the
// compiler's own device runtime lacks is declared here as judge_* functions, which the planner implements
// (harness/hostapi.py). Force-inlined, so that a call carries the line of the user's file.
#pragma once

// What nvcc's own cuda_runtime.h brings along.
#include <algorithm>
#include <assert.h>
#include <cmath>
#include <judge/int_types.h>
#include <limits>
#include <limits.h>
#include <stdio.h>
#include <cstdlib>
#include <string.h>
#include <type_traits>
#include <utility>

#include <judge/host_only.h>

extern "C" {
__device__ cudaError_t judge_memcpy(void* dst, const void* src, size_t count, int kind);
__device__ cudaError_t judge_memset(void* dst, int value, size_t count);
__device__ cudaError_t judge_synchronize();
__device__ cudaError_t judge_func_set_attribute(const void* function, int attribute, int value);
__device__ cudaError_t judge_host_malloc(void** pointer, size_t size);
__device__ cudaError_t judge_host_free(void* pointer);
__device__ cudaError_t judge_managed_malloc(void** pointer, size_t size);
__device__ cudaError_t judge_set_device(int device);
__device__ cudaError_t judge_check_device(int device);
__device__ cudaError_t judge_event_elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end);
__device__ size_t judge_total_memory();
__device__ void judge_device_name(char* name, size_t size);
__device__ cudaError_t judge_launch_kernel(const void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                           unsigned by, unsigned bz, void** args, size_t shared, cudaStream_t stream);
__device__ cudaError_t judge_launch_cooperative(const void* function, unsigned gx, unsigned gy, unsigned gz,
                                                unsigned bx, unsigned by, unsigned bz, void** args, size_t shared,
                                                cudaStream_t stream);
__device__ cudaError_t judge_occupancy_block_size(int* min_grid, int* block, const void* function, size_t shared,
                                                  int limit);
}

// Memory. The first template is declared by the compiler, but it leaves the definition to us.
template <typename T>
static __inline__ __device__ cudaError_t cudaMalloc(T** pointer, size_t size) {
  return cudaMalloc((void**)(void*)pointer, size);
}
JUDGE_HOST cudaError_t cudaMallocAsync(void** pointer, size_t size, cudaStream_t) {
  return cudaMalloc(pointer, size);
}
template <typename T>
JUDGE_HOST cudaError_t cudaMallocAsync(T** pointer, size_t size, cudaStream_t) {
  return cudaMalloc((void**)(void*)pointer, size);
}
JUDGE_HOST cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
template <typename T>
JUDGE_HOST cudaError_t cudaMallocHost(T** pointer, size_t size, unsigned = 0) {
  return judge_host_malloc((void**)(void*)pointer, size);
}
template <typename T>
JUDGE_HOST cudaError_t cudaHostAlloc(T** pointer, size_t size, unsigned) {
  return judge_host_malloc((void**)(void*)pointer, size);
}
JUDGE_HOST cudaError_t cudaFreeHost(void* pointer) { return judge_host_free(pointer); }
template <typename T>
JUDGE_HOST cudaError_t cudaMallocManaged(T** pointer, size_t size, unsigned = cudaMemAttachGlobal) {
  return judge_managed_malloc((void**)(void*)pointer, size);
}
JUDGE_HOST cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = judge_total_memory();
  return cudaSuccess;
}

// Copies and fills. Streams run in the order of issue.
JUDGE_HOST cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return judge_memcpy(dst, src, count, kind);
}
static __inline__ __device__ cudaError_t CUDARTAPI cudaMemcpyAsync(void* dst, const void* src, size_t count,
                                                                  cudaMemcpyKind kind, cudaStream_t stream = 0);
JUDGE_HOST cudaError_t cudaMemset(void* dst, int value, size_t count) { return judge_memset(dst, value, count); }
static __inline__ __device__ cudaError_t CUDARTAPI cudaMemsetAsync(void* dst, int value, size_t count,
                                                                  cudaStream_t stream = 0);
template <typename T>
JUDGE_HOST cudaError_t cudaGetSymbolAddress(void** pointer, const T& symbol) {
  *pointer = (void*)&symbol;
  return cudaSuccess;
}
template <typename T>
JUDGE_HOST cudaError_t cudaGetSymbolSize(size_t* size, const T& symbol) {
  *size = sizeof(symbol);
  return cudaSuccess;
}
template <typename T>
JUDGE_HOST cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* src, size_t count, size_t offset = 0,
                                         cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return judge_memcpy((char*)&symbol + offset, src, count, kind);
}
template <typename T>
JUDGE_HOST cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* src, size_t count, size_t offset = 0,
                                              cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t = 0) {
  return judge_memcpy((char*)&symbol + offset, src, count, kind);
}
template <typename T>
JUDGE_HOST cudaError_t cudaMemcpyFromSymbol(void* dst, const T& symbol, size_t count, size_t offset = 0,
                                           cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return judge_memcpy(dst, (const char*)&symbol + offset, count, kind);
}

// Kernels.
template <typename F>
JUDGE_HOST cudaError_t cudaFuncSetAttribute(F function, cudaFuncAttribute attribute, int value) {
  return judge_func_set_attribute((const void*)function, attribute, value);
}
template <typename F>
JUDGE_HOST cudaError_t cudaFuncSetCacheConfig(F, cudaFuncCache) {
  return cudaSuccess;
}
template <typename T>
static __inline__ __device__ cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* function) {
  return cudaFuncGetAttributes(attributes, (const void*)function);
}
template <typename T>
static __inline__ __device__ cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T function,
                                                                                      int block, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)function, block, shared);
}
template <typename F>
JUDGE_HOST cudaError_t cudaOccupancyMaxPotentialBlockSize(int* min_grid, int* block, F function, size_t shared = 0,
                                                         int limit = 0) {
  return judge_occupancy_block_size(min_grid, block, (const void*)function, shared, limit);
}
template <typename F>
JUDGE_HOST cudaError_t cudaLaunchKernel(F function, dim3 grid, dim3 block, void** args, size_t shared = 0,
                                       cudaStream_t stream = 0) {
  return judge_launch_kernel((const void*)function, grid.x, grid.y, grid.z, block.x, block.y, block.z, args, shared,
                             stream);
}
template <typename F>
JUDGE_HOST cudaError_t cudaLaunchCooperativeKernel(F function, dim3 grid, dim3 block, void** args, size_t shared = 0,
                                                  cudaStream_t stream = 0) {
  return judge_launch_cooperative((const void*)function, grid.x, grid.y, grid.z, block.x, block.y, block.z, args,
                                  shared, stream);
}

// Streams and events: accepted, ordered as issued, never timed.
JUDGE_HOST cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
JUDGE_HOST cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
static __inline__ __device__ cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                                      unsigned flags = 0);
JUDGE_HOST cudaError_t cudaStreamSynchronize(cudaStream_t) { return judge_synchronize(); }
JUDGE_HOST cudaError_t cudaStreamQuery(cudaStream_t) { return judge_synchronize(); }
JUDGE_HOST cudaError_t cudaDeviceSynchronize() { return judge_synchronize(); }
JUDGE_HOST cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
static __inline__ __device__ cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
JUDGE_HOST cudaError_t cudaEventSynchronize(cudaEvent_t) { return judge_synchronize(); }
JUDGE_HOST cudaError_t cudaEventQuery(cudaEvent_t) { return judge_synchronize(); }
JUDGE_HOST cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return judge_event_elapsed(milliseconds, start, end);
}

// The device.
JUDGE_HOST cudaError_t cudaSetDevice(int device) { return judge_set_device(device); }
JUDGE_HOST cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

__device__ inline int judge_attribute(cudaDeviceAttr attribute) {
  int value = 0;
  cudaDeviceGetAttribute(&value, attribute, 0);
  return value;
}

__device__ inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t error = judge_check_device(device);
  if (error != cudaSuccess) return error;
  cudaDeviceProp& p = *properties;
  p = cudaDeviceProp();
  judge_device_name(p.name, sizeof(p.name));
  p.totalGlobalMem = judge_total_memory();
  p.sharedMemPerBlock = judge_attribute(cudaDevAttrMaxSharedMemoryPerBlock);
  p.sharedMemPerBlockOptin = judge_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p.sharedMemPerMultiprocessor = judge_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p.reservedSharedMemPerBlock = judge_attribute(cudaDevAttrReservedSharedMemoryPerBlock);
  p.regsPerBlock = judge_attribute(cudaDevAttrMaxRegistersPerBlock);
  p.regsPerMultiprocessor = judge_attribute(cudaDevAttrMaxRegistersPerMultiprocessor);
  p.warpSize = judge_attribute(cudaDevAttrWarpSize);
  p.maxThreadsPerBlock = judge_attribute(cudaDevAttrMaxThreadsPerBlock);
  p.maxThreadsPerMultiProcessor = judge_attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
  p.maxBlocksPerMultiProcessor = judge_attribute(cudaDevAttrMaxBlocksPerMultiprocessor);
  p.maxThreadsDim[0] = judge_attribute(cudaDevAttrMaxBlockDimX);
  p.maxThreadsDim[1] = judge_attribute(cudaDevAttrMaxBlockDimY);
  p.maxThreadsDim[2] = judge_attribute(cudaDevAttrMaxBlockDimZ);
  p.maxGridSize[0] = judge_attribute(cudaDevAttrMaxGridDimX);
  p.maxGridSize[1] = judge_attribute(cudaDevAttrMaxGridDimY);
  p.maxGridSize[2] = judge_attribute(cudaDevAttrMaxGridDimZ);
  p.totalConstMem = judge_attribute(cudaDevAttrTotalConstantMemory);
  p.major = judge_attribute(cudaDevAttrComputeCapabilityMajor);
  p.minor = judge_attribute(cudaDevAttrComputeCapabilityMinor);
  p.multiProcessorCount = judge_attribute(cudaDevAttrMultiProcessorCount);
  p.l2CacheSize = judge_attribute(cudaDevAttrL2CacheSize);
  p.memoryBusWidth = judge_attribute(cudaDevAttrGlobalMemoryBusWidth);
  p.concurrentKernels = judge_attribute(cudaDevAttrConcurrentKernels);
  p.cooperativeLaunch = judge_attribute(cudaDevAttrCooperativeLaunch);
  p.unifiedAddressing = judge_attribute(cudaDevAttrUnifiedAddressing);
  p.asyncEngineCount = judge_attribute(cudaDevAttrAsyncEngineCount);
  return cudaSuccess;
}

// The device compiler refuses functions that are marked __host__; without the mark they compile like solve() itself.
#undef __host__
#define __host__
