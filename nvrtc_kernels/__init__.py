"""CUDA C++ kernels, and the code that specialises, compiles and caches them."""
