"""From basic blocks of PTX to Python source over NumPy arrays."""
