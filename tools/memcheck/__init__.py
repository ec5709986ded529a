"""Looks for a script's mistakes with GPU memory: ``graphroot memcheck [options] script.py [arguments]``.

See docs/memcheck.md.
"""
