"""Runs a program, on a simulated GPU if asked: ``python -m tools.run [options] script.py [arguments]``."""
