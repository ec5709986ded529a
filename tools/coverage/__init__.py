"""``python -m tools.coverage`` says which public names of an installed PyTorch are here, left out, planned or missing."""
