"""``python -m tools.stubs`` writes the stubs of what definitions of operations publish, for type checkers and editors."""
