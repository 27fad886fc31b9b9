"""Random CUDA kernels of seven families, for comparing two ways of running the same PTX bit for bit.

tests/random_kernels.py has kernels of unsigned numbers and a model of them in Python. These here have no model: they
use every type, roundings, warp operations, shared and global memory and atomics, and are run twice, on a card and in
the emulator (tests/gpu/differential.py), or in the emulator from two compilations of one text
(tests/test_random_ptx.py). Every result is the same in every schedule: no races, no order of atomics that shows,
warp operations only where the lanes that they name arrive together.

    operations.py   what expressions are made of, one line an operation
    types.py        the types: C names, literals, how they are written to memory
    writer.py       expressions and statements of one kernel, control flow
    exchange.py     statements by which threads see each other: warps, shared memory, atomics
    families.py     which types, operations and statements a family has
    program.py      a whole kernel from a seed, modules of many, inputs
"""
