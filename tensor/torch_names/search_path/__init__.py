"""The folder that stands in ``PYTHONPATH`` of the processes of a program that runs as PyTorch's: it has their ``torch``."""
