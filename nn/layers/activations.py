"""Activation functions as modules: elementwise ones, gated ones, and the softmax family."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from nn import functional
from nn import functional as functions
from nn.module import Module
from nn.parameter import Parameter
from tensor import full

if TYPE_CHECKING:
    from tensor import Tensor, dtype


class _InPlace(Module):
    """An activation without numbers, that can write its result to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """``inplace``, where it is set."""
        return _with_inplace(self.inplace)


def _with_inplace(inplace: bool, *texts: str) -> str:
    return ", ".join([*texts, "inplace=True"] if inplace else texts)


# Rectifiers


class ReLU(_InPlace):
    """``max(input, 0)``; written to the input if ``inplace``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.relu(input, self.inplace)


class LeakyReLU(Module):
    """``input`` where it is positive, else ``negative_slope * input``."""

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"negative_slope={self.negative_slope}")


class RReLU(Module):
    """``input`` where it is positive, else a slope times it.

    The slope is drawn for each element from ``lower`` to ``upper`` in training, and their mean otherwise.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"lower={self.lower}", f"upper={self.upper}")


class PReLU(Module):
    """``input`` where it is positive, else ``weight * input``, with a weight that is trained.

    Parameters
    ----------
    num_parameters : int
        1, or the number C of channels of inputs of shape (N, C, ...).
    init : float
        What the weight is at first.
    device, dtype
        Of the weight.

    Attributes
    ----------
    weight : Parameter
        Of shape (num_parameters,). It does not go well with weight decay.
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full((num_parameters,), float(init), device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the weight to its first value."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Numbers."""
        return f"num_parameters={self.num_parameters}"


class Threshold(Module):
    """``input`` where it is above ``threshold``, else ``value``."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"threshold={self.threshold}", f"value={self.value}")


# Smooth rectifiers


class ELU(Module):
    """``input`` where it is positive, else ``alpha * (exp(input) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"alpha={self.alpha}")


class CELU(Module):
    """``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"alpha={self.alpha}")


class SELU(_InPlace):
    """:class:`ELU` with the constants of self-normalising networks (G. Klambauer et al., 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.selu(input, self.inplace)


class GELU(Module):
    """``input`` times the part of the normal distribution below it; ``approximate="tanh"`` is a formula for that."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Formula."""
        return f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    """``input * sigmoid(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.silu(input, self.inplace)


class Mish(_InPlace):
    """``input * tanh(softplus(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.mish(input, self.inplace)


class Softplus(Module):
    """``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above ``threshold``."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


# Between two values


class Sigmoid(Module):
    """``1 / (1 + exp(-input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.sigmoid(input)


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-input)))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.tanh(input)


class Softsign(Module):
    """``input / (1 + abs(input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.softsign(input)


class Hardtanh(Module):
    """``input`` between ``min_val`` and ``max_val``.

    Raises
    ------
    ValueError
        If ``max_val`` is not above ``min_val``.
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, given in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if given is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise ValueError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Numbers."""
        return _with_inplace(self.inplace, f"min_val={self.min_val}", f"max_val={self.max_val}")


class ReLU6(Hardtanh):
    """``min(max(input, 0), 6)``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """``inplace``, where it is set."""
        return _with_inplace(self.inplace)


class Hardsigmoid(_InPlace):
    """``(input + 3) / 6`` between 0 and 1."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardswish(_InPlace):
    """``input * hardsigmoid(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


# Shrinking


class Hardshrink(Module):
    """``input``, and 0 between ``-lambd`` and ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Number."""
        return f"{self.lambd}"


class Softshrink(Module):
    """``input`` brought nearer to 0 by ``lambd``."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Number."""
        return f"{self.lambd}"


class Tanhshrink(Module):
    """``input - tanh(input)``."""

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape."""
        return functions.tanhshrink(input)


# Gates


class GLU(Module):
    """The first half of ``input`` along ``dim`` times the sigmoid of the second."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of half the input's size along ``dim``."""
        return functions.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Dimension."""
        return f"dim={self.dim}"


class _Softmax(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """``exp(x)`` divided by its sum along ``dim``."""

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers with the sum 1."""
        return functional.softmax(input, self.dim)


class Softmin(_Softmax):
    """:class:`Softmax` of ``-x``."""

    def forward(self, input: Tensor) -> Tensor:
        """Positive numbers with the sum 1."""
        return functional.softmin(input, self.dim)


class LogSoftmax(_Softmax):
    """Logarithm of :class:`Softmax`."""

    def forward(self, input: Tensor) -> Tensor:
        """Numbers whose exponentials have the sum 1."""
        return functional.log_softmax(input, self.dim)


class Softmax2d(Module):
    """:class:`Softmax` over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        """Images of which every pixel's channels have the sum 1."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return functional.softmax(input, -3)
