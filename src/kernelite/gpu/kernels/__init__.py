"""Triton kernels. Each has a definition in torch operations, and a test that compares them."""
