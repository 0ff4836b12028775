"""Targets: each has its namespace, its loops and its fast kernels."""
