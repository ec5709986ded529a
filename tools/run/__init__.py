"""Runs PyTorch programs as they are: ``python -m tools.run [options] script.py [arguments]``.

See docs/pytorch-programs.md.
"""
