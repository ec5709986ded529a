"""Looks for a script's mistakes with GPU memory: ``python -m tools.memcheck [options] script.py [arguments]``.

See docs/memcheck.md.
"""
