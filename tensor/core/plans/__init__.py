"""Plans: what carries out an operation, worked out once for each layout and kept; those of copies and fills."""

from .plans import Plans, not_implemented, planned

__all__ = ["Plans", "not_implemented", "planned"]
