"""Triton kernels of the GPU path. They run on CUDA, or on a CPU under Triton's interpreter."""
