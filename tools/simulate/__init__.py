"""Runs a command on a simulated GPU, whatever it loads CUDA's driver with: ``python -m tools.simulate COMMAND``.

See docs/simulator.md.
"""
