"""How operations compute a whole batch at once: a rule for each family."""

from . import (
    creation,
    elements,
    histories,
    indexing,
    layers,
    losses,
    products,
    random,
    reductions,
    refused,
    shapes,
)

__all__ = [
    "creation",
    "elements",
    "histories",
    "indexing",
    "layers",
    "losses",
    "products",
    "random",
    "reductions",
    "refused",
    "shapes",
]
