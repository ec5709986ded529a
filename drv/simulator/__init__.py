"""A CUDA driver in Python: the calls of the driver API, with no GPU."""
