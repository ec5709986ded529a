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
    """Returns its input. Takes, and ignores, any arguments, so that it can replace another layer.

    >>> nn.Identity(20, 10, bias=False)(tensor.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """The input itself.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype; any other object too.
        """
        return input


class Linear(Module):
    """Affine map of the last dimension: ``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension of input and output.
    bias : bool
        Whether to add a learned bias.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_features, in_features), initialized uniformly in ``±1 / sqrt(in_features)``.
    bias : Parameter or None
        Shape (out_features,), initialized in the same way.

    Examples
    --------
    >>> layer = nn.Linear(20, 30)
    >>> layer(tensor.randn(128, 20)).shape
    tensor.Size([128, 30])
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
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Map an input of shape (..., in_features) to (..., out_features).

        Raises
        ------
        RuntimeError
            If the last dimension is not ``in_features``, or dtype or device differ from the weight's.
        """
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """Bilinear map of two inputs: output k is ``input1 @ weight[k] @ input2 + bias[k]``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
        Sizes of the last dimension of the inputs and the output.
    bias : bool
        Whether to add a learned bias.
    device, dtype
        Of the parameters.

    Attributes
    ----------
    weight : Parameter
        Shape (out_features, in1_features, in2_features), initialized uniformly in ``±1 / sqrt(in1_features)``.
    bias : Parameter or None
        Shape (out_features,), initialized in the same way.

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
        """Draw new initial values."""
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Map ``input1`` and ``input2``, of shapes (..., in1_features) and (..., in2_features), to (..., out_features).

        Raises
        ------
        RuntimeError
            If a last dimension has another size, or the other dimensions differ.
        """
        return bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: sizes, and whether there is a bias."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
