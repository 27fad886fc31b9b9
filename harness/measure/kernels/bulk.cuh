// Bulk copies to shared memory and the barriers that say when they have arrived (PTX ISA 8.0, sm_90 and later).
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ inline void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// What was initialised is seen by copies and by the other blocks of the cluster.
__device__ inline void barriers_visible() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ inline void barrier_wait(u32 barrier, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

__device__ inline void bulk_load(u32 target, const char* source, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(target), "l"(source), "r"(bytes), "r"(barrier) : "memory");
}
