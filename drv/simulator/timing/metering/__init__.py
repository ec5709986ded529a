"""Counting what a launch does while its blocks run: requests to memory, caches, bytes, instructions."""
