"""Judge for CUDA attention kernels: compile, run on randomised cases, compare, explain."""

__version__ = "0.1.0"
