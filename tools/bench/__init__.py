"""Benchmarks: ``graphroot bench SUITE`` prints a table and writes the same as JSON.

Timings mean something only side by side, in one run, on one machine: contenders are measured in turn,
and the medians and their ratios are shown.
"""
