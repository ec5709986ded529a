"""What holds in a thread or process and changes how operations run: grad mode, autocast, precision, determinism."""
