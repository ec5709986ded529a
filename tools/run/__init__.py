"""Runs PyTorch programs as they are: ``graphroot run [options] script.py [arguments]``.

With ``--simulate`` they run on a simulated GPU, and the races that are found are told at the end.
"""
