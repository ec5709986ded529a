"""``tensor.array_api``: the array API standard."""
