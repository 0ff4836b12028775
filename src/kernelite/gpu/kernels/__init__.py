"""Triton kernels. Each has a definition in torch operations beside its caller, and a test of both."""
