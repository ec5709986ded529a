"""Runs a command on a simulated GPU, whatever it loads CUDA's driver with: ``graphroot simulate COMMAND``.

See docs/simulator.md.
"""
