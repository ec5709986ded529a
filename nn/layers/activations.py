"""Activation functions as modules: elementwise ones, gated ones, and the softmax family."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from nn import functional
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
        """What ``repr()`` shows of the module: ``inplace``, where it is set."""
        return _with_inplace(self.inplace)


def _with_inplace(inplace: bool, *texts: str) -> str:
    return ", ".join([*texts, "inplace=True"] if inplace else texts)


# Rectifiers


class ReLU(_InPlace):
    """Rectified linear unit: ``max(0, input)``, elementwise.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.

    Examples
    --------
    >>> nn.ReLU()(tensor.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and an integer or floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        RuntimeError
            If the dtype is bool, or the input is a leaf that requires a gradient and ``inplace`` is set.
        NotImplementedError
            If the dtype is complex.
        """
        return functional.relu(input, self.inplace)


class LeakyReLU(Module):
    """Leaky rectified linear unit: ``input`` where it is positive, else ``negative_slope * input``.

    Parameters
    ----------
    negative_slope : float
        Slope for negative inputs.
    inplace : bool
        Whether the result overwrites the input.
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"negative_slope={self.negative_slope}")


class RReLU(Module):
    """Randomized leaky rectified linear unit: ``input`` where it is positive, else a slope times ``input``.

    In training mode the slope of each element is drawn from the uniform distribution over [``lower``, ``upper``]; in
    evaluation mode it is their mean (Xu et al., "Empirical Evaluation of Rectified Activations in Convolutional
    Network", 2015).

    Parameters
    ----------
    lower, upper : float
        Bounds of the slope for negative inputs.
    inplace : bool
        Whether the result overwrites the input.

    Raises
    ------
    RuntimeError
        When it is called, if ``lower`` is greater than ``upper``.
    """

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element, in training with random slopes.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        RuntimeError
            If ``lower`` is greater than ``upper``.
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"lower={self.lower}", f"upper={self.upper}")


class PReLU(Module):
    """Parametric rectified linear unit: ``input`` where it is positive, else ``weight * input`` with a learned weight.

    He et al., "Delving Deep into Rectifiers", 2015. Weight decay of ``weight`` is not recommended.

    Parameters
    ----------
    num_parameters : int
        1 for one weight, or the number C of channels of inputs of shape (N, C, ...) for a weight of each channel.
    init : float
        Initial value of the weight.
    device, dtype
        Of the weight.

    Attributes
    ----------
    weight : Parameter
        Shape (num_parameters,).
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
        """Set the weight to its initial value."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element, with the weight of its channel.

        Parameters
        ----------
        input : Tensor
            Of shape (N, C, ...), (C,) or (), and any dtype but complex.

        Returns
        -------
        Tensor
            Of the input's shape, and the dtype to which input and ``weight`` are promoted.

        Raises
        ------
        RuntimeError
            If the number of weights is neither 1 nor the number of channels.
        NotImplementedError
            If the dtype is complex.
        """
        return functional.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return f"num_parameters={self.num_parameters}"


class Threshold(Module):
    """``input`` where it is greater than ``threshold``, else the constant ``value``.

    Parameters
    ----------
    threshold : float
        Elements that are not greater are replaced.
    value : float
        Their replacement.
    inplace : bool
        Whether the result overwrites the input.
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and an integer or floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool or complex.
        """
        return functional.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"threshold={self.threshold}", f"value={self.value}")


# Smooth rectifiers


class ELU(Module):
    """Exponential linear unit: ``input`` where it is positive, else ``alpha * (exp(input) - 1)``.

    Clevert, Unterthiner and Hochreiter, "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2015.

    Parameters
    ----------
    alpha : float
        Minus the limit for very negative inputs.
    inplace : bool
        Whether the result overwrites the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"alpha={self.alpha}")


class CELU(Module):
    """Continuously differentiable ELU: ``input`` where it is positive, else ``alpha * (exp(input / alpha) - 1)``.

    Barron, "Continuously Differentiable Exponential Linear Units", 2017.

    Parameters
    ----------
    alpha : float
        Minus the limit for very negative inputs; not 0.
    inplace : bool
        Whether the result overwrites the input.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"alpha={self.alpha}")


class SELU(_InPlace):
    """Scaled exponential linear unit: ``1.0507 * (input if input > 0 else 1.6733 * (exp(input) - 1))``.

    The constants make mean 0 and variance 1 a fixed point from layer to layer (Klambauer et al., "Self-Normalizing
    Neural Networks", 2017). It goes with :class:`AlphaDropout` and ``init.kaiming_normal_(nonlinearity="linear")``.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.selu(input, self.inplace)


class GELU(Module):
    """Gaussian error linear unit: ``input * Phi(input)``, with ``Phi`` the distribution function of the standard normal.

    Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.

    Parameters
    ----------
    approximate : str
        ``"none"`` computes ``Phi`` by the error function; ``"tanh"`` approximates the result by
        ``0.5 * input * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input ** 3)))``.

    Raises
    ------
    RuntimeError
        When it is called, if ``approximate`` is neither.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: formula."""
        return f"approximate={self.approximate!r}"


class SiLU(_InPlace):
    """Sigmoid linear unit, also called swish: ``input * sigmoid(input)``.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating or complex dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool or integer.
        """
        return functional.silu(input, self.inplace)


class Mish(_InPlace):
    """Mish: ``input * tanh(softplus(input))`` (Misra, "Mish: A Self Regularized Non-Monotonic Neural Activation", 2019).

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.mish(input, self.inplace)


class Softplus(Module):
    """Smooth approximation of ReLU: ``log(1 + exp(beta * input)) / beta``.

    Parameters
    ----------
    beta : float
        Sharpness: the greater, the closer to ReLU.
    threshold : float
        Where ``beta * input`` is greater, the result is ``input`` itself, which is equal to rounding and cannot
        overflow.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


# Between two values


class Sigmoid(Module):
    """Logistic function: ``1 / (1 + exp(-input))``, elementwise, for an input of any shape.

    >>> nn.Sigmoid()(tensor.tensor([0.0, 100.0]))
    tensor([0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; of the default dtype for bools and integers.
        """
        return functional.sigmoid(input)


class LogSigmoid(Module):
    """Logarithm of the logistic function, ``-log(1 + exp(-input))``, computed without overflow.

    >>> nn.LogSigmoid()(tensor.tensor([0.0, -1000.0]))
    tensor([-6.9315e-01, -1.0000e+03])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent, elementwise, for an input of any shape.

    >>> nn.Tanh()(tensor.tensor([0.0, 100.0]))
    tensor([0., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape and dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; of the default dtype for bools and integers.
        """
        return functional.tanh(input)


class Softsign(Module):
    """``input / (1 + abs(input))``, elementwise, for an input of any shape.

    >>> nn.Softsign()(tensor.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and an integer, floating or complex dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; float32 for integers (the default dtype).

        Raises
        ------
        NotImplementedError, RuntimeError
            If the dtype is bool.
        """
        return functional.softsign(input)


class Hardtanh(Module):
    """``input`` clamped to [``min_val``, ``max_val``], elementwise.

    Parameters
    ----------
    min_val, max_val : float
        Bounds.
    inplace : bool
        Whether the result overwrites the input.
    min_value, max_value : float, optional
        Deprecated names of the bounds.

    Raises
    ------
    ValueError
        If ``max_val`` is not greater than ``min_val``.
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
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
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
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and an integer or floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool or complex.
        """
        return functional.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: numbers."""
        return _with_inplace(self.inplace, f"min_val={self.min_val}", f"max_val={self.max_val}")


class ReLU6(Hardtanh):
    """``min(max(input, 0), 6)``, elementwise (Howard et al., "MobileNets", 2017).

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: ``inplace``, where it is set."""
        return _with_inplace(self.inplace)


class Hardsigmoid(_InPlace):
    """Piecewise linear sigmoid: ``(input + 3) / 6`` clamped to [0, 1].

    Howard et al., "Searching for MobileNetV3", 2019.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: nothing, as in PyTorch."""
        return ""


class Hardswish(_InPlace):
    """Piecewise swish: ``input * hardsigmoid(input)``.

    Howard et al., "Searching for MobileNetV3", 2019.

    Parameters
    ----------
    inplace : bool
        Whether the result overwrites the input.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: nothing, as in PyTorch."""
        return ""


# Shrinking


class Hardshrink(Module):
    """Hard thresholding: 0 where ``abs(input) <= lambd``, else ``input``.

    Parameters
    ----------
    lambd : float
        Threshold.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: number."""
        return f"{self.lambd}"


class Softshrink(Module):
    """Soft thresholding: ``input`` moved towards 0 by ``lambd``, and 0 where ``abs(input) <= lambd``.

    Parameters
    ----------
    lambd : float
        Threshold; not negative.

    Raises
    ------
    RuntimeError
        When it is called, if ``lambd`` is negative.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype.

        Raises
        ------
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: number."""
        return f"{self.lambd}"


class Tanhshrink(Module):
    """``input - tanh(input)``, elementwise, for an input of any shape.

    >>> nn.Tanhshrink()(tensor.tensor([0.0, 100.0]))
    tensor([ 0., 99.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Apply the activation to each element.

        Parameters
        ----------
        input : Tensor
            Of any shape, and an integer, floating or complex dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype; float32 for integers (the default dtype).

        Raises
        ------
        NotImplementedError, RuntimeError
            If the dtype is bool.
        """
        return functional.tanhshrink(input)


# Gates


class GLU(Module):
    """Gated linear unit: the first half of ``input`` along ``dim`` times the sigmoid of the second half.

    Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2016. An input of shape (..., 2 n, ...)
    gives (..., n, ...).

    Parameters
    ----------
    dim : int
        Dimension to split; its size must be even.

    Raises
    ------
    RuntimeError
        When it is called, if the size of ``dim`` is odd.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """First half of the input along ``dim`` times the sigmoid of the second.

        Parameters
        ----------
        input : Tensor
            Of a shape of even size along ``dim``, and a floating dtype.

        Returns
        -------
        Tensor
            Of half the input's size along ``dim``, and its dtype.

        Raises
        ------
        RuntimeError
            If the size along ``dim`` is odd, or the input has no dimension.
        NotImplementedError
            If the dtype is bool, integer or complex.
        """
        return functional.glu(input, self.dim)

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: dimension."""
        return f"dim={self.dim}"


class _Softmax(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """What ``repr()`` shows of the module: the dimension."""
        return f"dim={self.dim}"


class Softmax(_Softmax):
    """Softmax along ``dim``: ``exp(x) / sum(exp(x))``, computed without overflow.

    Parameters
    ----------
    dim : int
        Dimension whose elements sum to 1. Leaving it out is deprecated: it warns, and 0 or 1 is chosen by the rank.

    Examples
    --------
    >>> nn.Softmax(dim=1)(tensor.zeros(2, 4))
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Softmax along ``dim``.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype, with elements in [0, 1] that sum to 1 along ``dim``.

        Raises
        ------
        IndexError
            If there is no dimension ``dim``.
        NotImplementedError
            If the dtype is integer or complex.
        """
        return functional.softmax(input, self.dim)


class Softmin(_Softmax):
    """Softmax of ``-input`` along ``dim``.

    Parameters
    ----------
    dim : int
        Dimension whose elements sum to 1. Leaving it out is deprecated: it warns, and 0 or 1 is chosen by the rank.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Softmin along ``dim``.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype, with elements in [0, 1] that sum to 1 along ``dim``.

        Raises
        ------
        IndexError
            If there is no dimension ``dim``.
        NotImplementedError
            If the dtype is integer or complex.
        """
        return functional.softmin(input, self.dim)


class LogSoftmax(_Softmax):
    """Logarithm of the softmax along ``dim``: ``x - log(sum(exp(x)))``, computed without overflow or cancellation.

    Parameters
    ----------
    dim : int
        Dimension whose exponentials sum to 1. Leaving it out is deprecated: it warns, and 0 or 1 is chosen by the
        rank.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Logarithm of the softmax along ``dim``.

        Parameters
        ----------
        input : Tensor
            Of any shape, and a floating dtype.

        Returns
        -------
        Tensor
            Of the input's shape and dtype, with elements that are not positive.

        Raises
        ------
        IndexError
            If there is no dimension ``dim``.
        NotImplementedError
            If the dtype is integer or complex.
        """
        return functional.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels of images, of shape (N, C, H, W) or (C, H, W), at each pixel.

    Raises
    ------
    ValueError
        When it is called, if the input has another number of dimensions than 3 or 4.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Tensor of the input's shape, (N, C, H, W) or (C, H, W), whose channels sum to 1 at each pixel.

        Raises
        ------
        ValueError
            If the input has another number of dimensions than 3 or 4.
        """
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return functional.softmax(input, -3)
