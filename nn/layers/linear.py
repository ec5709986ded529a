"""Linear and bilinear layers, and the one that does nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nn import init
from nn.functional import bilinear, linear
from nn.module import Module
from nn.parameter import Parameter
from tensor import empty

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class Identity(Module):
    """Its input. Takes, and ignores, any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input itself."""
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension of input and output.
    bias : bool
        Whether a bias is added.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Of shape (out_features, in_features), at first uniform in ``±1 / sqrt(in_features)``.
    bias : Parameter or None
        Of shape (out_features,), likewise.
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of shape (..., out_features) for one of shape (..., in_features)."""
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``input1 @ weight[k] @ input2`` for every output ``k``, plus ``bias``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last dimension of the inputs and the output.
    bias : bool
        Whether a bias is added.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Of shape (out_features, in1_features, in2_features), at first uniform in ``±1 / sqrt(in1_features)``.
    bias : Parameter or None
        Of shape (out_features,), likewise.

    Raises
    ------
    ValueError
        If ``in1_features`` is not positive.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Tensor of shape (..., out_features)."""
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
