"""C libraries of CUDA, declared and bound: cuBLAS, cuFFT and NCCL."""
