"""Simulated memory: addresses, allocations, and how queued work reads and writes them."""
