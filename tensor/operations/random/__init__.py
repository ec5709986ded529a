"""Random numbers: one counter-based generator for CPU and CUDA, distributions, dropout."""
