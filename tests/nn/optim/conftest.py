"""Where the parameters of a test lie."""

from tests.tensor.conftest import place_name

__all__ = ["place_name"]
