"""Data parallelism over threads and processes."""
