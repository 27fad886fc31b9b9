"""Judging the judge: whether a problem tells right kernels from wrong ones (harness/linting/lint.py)."""
