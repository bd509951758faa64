"""The speed of the GPU path: `python -m mxdot.gpu.bench`."""
