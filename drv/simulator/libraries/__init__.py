"""cuBLAS and cuFFT, computed with NumPy on simulated memory."""
