"""The host's processors: how many there are for this process, threads that share work, and BLAS."""
