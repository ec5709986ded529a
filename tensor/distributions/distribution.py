"""``Distribution``, what all distributions have, and exponential families."""

from __future__ import annotations

import warnings
from numbers import Number
from typing import TYPE_CHECKING, Any, Self

from tensor.autograd.differentiation import grad
from tensor.core.base import TensorBase
from tensor.core.dtypes.default import get_default_dtype
from tensor.core.dtypes.limits import finfo
from tensor.core.modes.grad_mode import enable_grad, no_grad
from tensor.core.plans.steps import one_step, recording
from tensor.core.size import Size
from tensor.operations.creation.construction import tensor as new_tensor
from tensor.operations.pointwise.powers import exp
from tensor.operations.shapes.broadcasting import broadcast_tensors

from . import constraints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.methods.tensor import Tensor

__all__ = ["Distribution", "ExponentialFamily"]


def _check_all(valid: Tensor, text: str, value: Tensor) -> None:
    """Raise ValueError with ``text``, and ``value``, if ``valid`` is not true everywhere.

    As in PyTorch, the values of tensors of a device are not checked in functions that are compiled: the host would wait.
    """
    if not (valid.is_cuda and recording()):
        _check_values(valid, text, value)


@one_step
def _check_values(valid: Tensor, text: str, value: Tensor) -> None:
    if not bool(valid.all()):
        raise ValueError(f"{text}; got:\n{value}")


class Distribution:
    """What all distributions have: a batch of ``batch_shape`` of distributions whose events have ``event_shape``.

    Samples have shape ``sample_shape + batch_shape + event_shape``. What a distribution does not define raises
    NotImplementedError.

    Parameters
    ----------
    batch_shape : Size
        Shape of the parameters: each element is a distribution of its own.
    event_shape : Size
        Shape of one sample of one of them, ``()`` for numbers.
    validate_args : bool, optional
        Whether parameters and arguments are checked; without it as :meth:`set_default_validate_args` says. On a
        device each check waits for the device.

    Attributes
    ----------
    has_rsample : bool
        Whether samples of :meth:`rsample` have derivatives by the parameters.
    has_enumerate_support : bool
        Whether :meth:`enumerate_support` is defined.

    Raises
    ------
    ValueError
        If a parameter violates its constraint.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            # What is computed from another parameter is valid if that is.
            if constraints.is_dependent(constraint) or name not in vars(self):
                continue
            self._check_parameter(name, constraint, vars(self)[name])

    def _check_parameter(self, name: str, constraint: Any, value: Tensor) -> None:
        _check_all(
            constraint.check(value),
            f"parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
            f"{type(self).__name__} must satisfy the constraint {constraint}",
            value,
        )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions made from now on check their arguments: True unless Python runs with ``-O``.

        Parameters
        ----------
        value : bool
            Whether they do.

        Raises
        ------
        ValueError
            If it is neither True nor False.
        """
        if value not in (True, False):
            raise ValueError(f"expected True or False, got {value!r}")
        Distribution._validate_args = value

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded, without a copy.

        Parameters
        ----------
        batch_shape : sequence of int
            What ``batch_shape`` shall be.

        Raises
        ------
        NotImplementedError
            If a subclass with a constructor of its own does not define it.
        """
        new = self._blank(_instance)
        batch = Size(batch_shape)
        for name, value in vars(self).items():
            if isinstance(value, TensorBase) and name in self._expandable():
                events = value.dim() - len(self.batch_shape)
                setattr(new, name, value.expand((*batch, *value.shape[value.dim() - events :])))
        new._batch_shape, new._event_shape = batch, self._event_shape
        result: Self = new
        return result

    def _expandable(self) -> Sequence[str]:
        """Names of the attributes whose shapes begin with the batch shape."""
        return list(self.arg_constraints)

    def _blank(self, instance: Any = None) -> Any:
        """An object of this class without parameters, for :meth:`expand`."""
        cls: Any = type(self)
        own: Any = self._own_class()
        if instance is None and cls.__init__ is not own.__init__:
            raise NotImplementedError(
                f"{type(self).__name__} has a constructor of its own: it must define expand(), too"
            )
        new = type(self).__new__(type(self)) if instance is None else instance
        new._validate_args = self._validate_args
        return new

    def _own_class(self) -> type:
        """The class that defines :meth:`expand` of this one, or that this package defines."""
        for each in type(self).__mro__:
            if each.__module__.startswith(__package__ or "") or "expand" in vars(each):
                return each
        return Distribution

    @property
    def batch_shape(self) -> Size:
        """Shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one sample of one distribution."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter, by name; raises NotImplementedError if undefined."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint of the samples; raises NotImplementedError if undefined."""
        raise NotImplementedError(f"{type(self).__name__} does not define its support")

    @property
    def mean(self) -> Tensor:
        """Expected values, of shape ``batch_shape + event_shape``; raises NotImplementedError if undefined."""
        raise NotImplementedError(f"{type(self).__name__} does not define its mean")

    @property
    def mode(self) -> Tensor:
        """Most probable values, of shape ``batch_shape + event_shape``; raises NotImplementedError if undefined."""
        raise NotImplementedError(f"{type(self).__name__} does not define its mode")

    @property
    def variance(self) -> Tensor:
        """Variances, of shape ``batch_shape + event_shape``; raises NotImplementedError if undefined."""
        raise NotImplementedError(f"{type(self).__name__} does not define its variance")

    @property
    def stddev(self) -> Tensor:
        """Standard deviations, of shape ``batch_shape + event_shape``."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Independent samples without derivatives.

        Parameters
        ----------
        sample_shape : sequence of int
            How many: the result has shape ``sample_shape + batch_shape + event_shape``.
        """
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``, which PyTorch asks to be used instead: it warns with UserWarning.

        The result has the shape ``(n, *batch_shape, *event_shape)``.
        """
        warnings.warn("sample_n() is deprecated: use sample((n,))", UserWarning, stacklevel=2)
        return self.sample((n,))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples with derivatives by the parameters (reparameterization).

        Parameters
        ----------
        sample_shape : sequence of int
            How many: the result has shape ``sample_shape + batch_shape + event_shape``.

        Raises
        ------
        NotImplementedError
            If ``has_rsample`` is False.
        """
        raise NotImplementedError(f"{type(self).__name__} has no samples with derivatives: use sample()")

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, or of the probability, at each event.

        Parameters
        ----------
        value : Tensor
            Events; its shape must broadcast with ``batch_shape + event_shape``.

        Raises
        ------
        ValueError
            If arguments are validated and ``value`` does not lie in the support.
        NotImplementedError
            If the distribution does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define log_prob()")

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of at most each value (cumulative distribution function).

        Parameters
        ----------
        value : Tensor
            Values; its shape must broadcast with ``batch_shape``.

        Raises
        ------
        ValueError
            If arguments are validated and ``value`` does not lie in the support.
        NotImplementedError
            If the distribution does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define cdf()")

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles: the values at which :meth:`cdf` has the given ones.

        Parameters
        ----------
        value : Tensor
            Probabilities; its shape must broadcast with ``batch_shape``.

        Raises
        ------
        NotImplementedError
            If the distribution does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define icdf()")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension.

        Parameters
        ----------
        expand : bool
            Whether they are repeated for the whole batch; otherwise its dimensions have size 1.

        Raises
        ------
        NotImplementedError
            If ``has_enumerate_support`` is False, or the number of values differs within the batch.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define enumerate_support()")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        """Entropy in nats, of shape ``batch_shape``.

        Raises
        ------
        NotImplementedError
            If the distribution does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define entropy()")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy, of shape ``batch_shape``.

        Raises NotImplementedError if the distribution has no formula for its entropy.
        """
        return exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise if ``value`` does not fit the distribution.

        Raises
        ------
        ValueError
            If it is no tensor, its shape does not fit, or it lies outside of the support.
        """
        if not isinstance(value, TensorBase):
            raise ValueError(f"expected a Tensor, got {type(value).__name__}")
        expected = (*self._batch_shape, *self._event_shape)
        events = len(self._event_shape)
        if tuple(value.shape[value.dim() - events :]) != tuple(self._event_shape):
            raise ValueError(
                f"the last dimensions of the value, of shape {tuple(value.shape)}, must be the event_shape "
                f"{tuple(self._event_shape)}"
            )
        for size, other in zip(reversed(value.shape), reversed(expected), strict=False):
            if size != 1 and other != 1 and size != other:
                raise ValueError(
                    f"a value of shape {tuple(value.shape)} does not broadcast with batch_shape + event_shape, {expected}"
                )
        support = self.support
        _check_all(
            support.check(value),
            f"the value ({type(value).__name__} of shape {tuple(value.shape)}) must lie in the support {support} "
            f"of {type(self).__name__}",
            value,
        )

    def __repr__(self) -> str:
        values = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in values.items()
        )
        return f"{type(self).__name__}({shown})"


class ExponentialFamily(Distribution):
    """Distributions whose density is ``exp(dot(t(x), theta) - F(theta) + k(x))``.

    Those that define the natural parameters ``theta`` and the log normalizer ``F`` get entropy and Kullback-Leibler
    divergence from them: the gradient of ``F`` is the mean of ``t(x)``.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not define its natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define its log normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        """Mean of ``k(x)``."""
        raise NotImplementedError(f"{type(self).__name__} does not define the mean of its carrier measure")

    def entropy(self) -> Tensor:
        parameters = [
            each if each.requires_grad else each.detach().requires_grad_() for each in self._natural_params
        ]
        with enable_grad():
            normalizer = self._log_normalizer(*parameters)
            gradients: Any = grad((normalizer.sum(),), parameters, create_graph=True)
        result: Tensor = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(parameters, gradients, strict=True):
            result = result - (parameter * gradient).reshape((*self._batch_shape, -1)).sum(-1)
        return result


def broadcast_all(*values: Any) -> list[Tensor]:
    """The values as tensors of one shape; numbers take dtype and device of the first tensor.

    Raises
    ------
    ValueError
        If one is neither a number nor a tensor.
    """
    if not all(isinstance(each, (TensorBase, Number)) for each in values):
        raise ValueError(
            f"expected numbers and tensors, got {', '.join(type(each).__name__ for each in values)}"
        )
    first: Any = next((each for each in values if isinstance(each, TensorBase)), None)
    options: dict[str, Any] = {"dtype": get_default_dtype()}
    if first is not None:
        options = {"dtype": first.dtype, "device": first.device}
    tensors = [each if isinstance(each, TensorBase) else new_tensor(each, **options) for each in values]
    return list(broadcast_tensors(*tensors))


def batch_shape_of(*arguments: Any, parameters: Sequence[Tensor]) -> Size:
    """Shape of the batch: ``()`` if only numbers were given."""
    return Size() if all(isinstance(each, Number) for each in arguments) else parameters[0].shape


def clamp_probs(probs: Tensor) -> Tensor:
    """``probs`` moved away from 0 and 1 by the resolution of their dtype.

    The resolution is ``finfo(dtype).eps``; shape and dtype, a floating one, stay.
    """
    eps = finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_of(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities; of binary ones the log odds."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def sum_rightmost(value: Any, dim: int) -> Any:
    """``value`` summed over its last ``dim`` dimensions."""
    if dim == 0 or not isinstance(value, TensorBase):
        return value
    return value.reshape((*value.shape[: value.dim() - dim], -1)).sum(-1)
