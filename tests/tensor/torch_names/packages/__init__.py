"""Packages that others wrote for PyTorch, as installed: programs that say ``import torch`` and use them.

Each test is skipped where its package is not installed; ``requirements.txt`` lists those that continuous integration installs.
"""
