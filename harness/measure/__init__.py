"""Timing, ceilings and statistics of kernels on a real card, and what makes the figures hard to fake."""
