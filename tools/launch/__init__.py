"""Starts a program as several ranks: ``graphroot launch``, which also gives them simulated GPUs and checks them.

What starts them is :mod:`parallel.launch`.
"""
