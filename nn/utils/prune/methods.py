"""Pruning methods: how the pruned elements of a parameter are selected, and the hook that applies the mask."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from tensor import ones_like, rand, rand_like, topk, zeros_like

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nn.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
]


class BasePruningMethod(ABC):
    """Base class of pruning methods: a forward pre-hook that computes the pruned tensor.

    The parameter ``name`` of a module becomes ``name_orig``, which is trained; the buffer ``name_mask`` is 0 where
    elements are pruned; ``name`` is the product of both. A subclass defines :meth:`compute_mask` and
    ``PRUNING_TYPE``: "unstructured" (elements), "structured" (indices along a dimension ``dim``) or "global".
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the pruned tensor."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask for elements of importance ``t``, of which ``default_mask`` has pruned some before.

        Parameters
        ----------
        t : Tensor
            Importance of each element: the parameter itself, or scores of its shape.
        default_mask : Tensor
            Of the shape of ``t``: 0 for elements that are pruned already, else 1.

        Returns
        -------
        Tensor
            Of the shape of ``t``: 0 for elements to prune and those that are pruned already, else 1.
        """

    def apply_mask(self, module: Module) -> Any:
        """The pruned tensor of ``module``: ``<name>_orig`` times ``<name>_mask``, of their shape.

        The mask is cast to the dtype of the parameter, which the result has. Gradients reach ``<name>_orig``.
        """
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter ``name`` of ``module``, in addition to previous pruning.

        Parameters
        ----------
        *args, **kwargs
            Arguments of the method.
        importance_scores : Tensor, optional
            Of the parameter's shape: compared instead of its elements.

        Raises
        ------
        AssertionError
            If the scores have another shape.
        """
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        hooks = [(key, hook) for key, hook in hooks_of(module) if hook._tensor_name == name]
        if len(hooks) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        if not hooks:
            mask = method.compute_mask(scores, default_mask=ones_like(original)).detach()
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
            return _install(method, module, mask)
        key, existing = hooks[0]
        container = existing if isinstance(existing, PruningContainer) else PruningContainer(existing)
        current = getattr(module, f"{name}_mask").detach().clone()
        mask = container._combined(method, scores, current).detach()
        container.add_pruning_method(method)
        del module._forward_pre_hooks[key]
        return _install(container, module, mask)

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` with pruned elements set to 0.

        Parameters
        ----------
        t : Tensor
            Any tensor.
        default_mask : Tensor, optional
            Mask of previous pruning.
        importance_scores : Tensor, optional
            Of the shape of ``t``: compared instead of its elements.

        Raises
        ------
        AssertionError
            If the scores have another shape.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruning of ``module`` permanent: its parameter becomes the pruned tensor, and the mask goes.

        The hook itself is left to the caller.
        """
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hooks_of(module: Module) -> list[tuple[int, BasePruningMethod]]:
    """The pruning hooks of ``module`` with their keys in its table."""
    hooks = [(key, hook.function) for key, hook in module._forward_pre_hooks.items()]
    return [(key, hook) for key, hook in hooks if isinstance(hook, BasePruningMethod)]


def _install(method: BasePruningMethod, module: Module, mask: Any) -> BasePruningMethod:
    module.register_buffer(f"{method._tensor_name}_mask", mask)
    method(module, None)
    module.register_forward_pre_hook(method)
    return method


class PruningContainer(BasePruningMethod):
    """Sequence of pruning methods for one parameter, each of which prunes what the ones before it left.

    Parameters
    ----------
    *args : BasePruningMethod
        Methods for the same parameter.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add ``method``, for the same parameter.

        Raises
        ------
        TypeError
            If it is not a :class:`BasePruningMethod`.
        ValueError
            If it is for a parameter of another name.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask``, further pruned by the last method, which sees the elements of ``t`` that are left.

        Raises
        ------
        ValueError
            If that method is of no known type, or fewer elements are left than it prunes.
        IndexError, AttributeError
            If it prunes along a dimension that ``t``, or that it itself, does not have.
        """
        return self._combined(self._pruning_methods[-1], t, default_mask)

    @staticmethod
    def _combined(method: BasePruningMethod, t: Any, mask: Any) -> Any:
        region: Any
        if method.PRUNING_TYPE == "unstructured":
            region = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = _dimension(t, method)
            others = [each for each in range(t.dim()) if each != dim]
            region = (*[slice(None)] * dim, mask.sum(others) != 0)
        elif method.PRUNING_TYPE == "global":
            region = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        combined = mask.to(dtype=t.dtype).clone()
        combined[region] = method.compute_mask(t[region], default_mask=mask[region]).to(dtype=combined.dtype)
        return combined


def _dimension(t: Any, method: Any) -> int:
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dim = int(method.dim)
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return dim % int(t.dim())


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter gets a mask of ones.

    As a base for pruning that comes later: ``<name>_orig`` and ``<name>_mask`` exist then.
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask``, whatever ``t`` is.

        Returned as it is, not as a copy.
        """
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:  # type: ignore[override]
        """Add a mask to the parameter ``name`` of ``module``.

        Returns the method, which is a forward pre-hook of the module from now on. Raises as :meth:`BasePruningMethod.apply`.
        """
        return super().apply(module, name)  # type: ignore[return-value]


def _is(value: Any, cls: type) -> bool:
    return isinstance(value, cls)


class _Amount(BasePruningMethod):
    """Base class of methods that prune a number of elements or indices, or a part of them."""

    amount: Any

    def __init__(self, amount: Any) -> None:
        if not _is(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not _is(amount, numbers.Integral) and amount > 1):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
            )
        self.amount = amount

    def _count(self, total: int) -> int:
        if not _is(self.amount, numbers.Integral):
            count: int = round(self.amount * total)
            return count
        if self.amount > total:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={total}"
            )
        return int(self.amount)


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def _scores(self, t: Any) -> Any:
        """Importance of each element: the smallest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask`` with 0 for the least important elements of ``t``, which has its shape.

        Raises
        ------
        ValueError
            If there are fewer elements than are to be pruned.
        """
        count = self._count(t.numel())
        flat = default_mask.flatten().clone()
        if count:
            flat[topk(self._scores(t.detach()).flatten(), count, largest=False).indices] = 0
        return flat.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prunes random elements.

    Parameters
    ----------
    amount : int or float
        An int is a number, a float the fraction of those that are not pruned yet.

    Raises
    ------
    TypeError
        If ``amount`` is no number.
    ValueError
        If it is negative, or a float greater than 1; when it prunes, if there are fewer than ``amount``.
    """

    def _scores(self, t: Any) -> Any:
        return rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:  # type: ignore[override]
        """Prune ``amount`` elements of the parameter ``name`` of ``module``.

        Returns the method, which is a forward pre-hook of the module from now on. Raises as :meth:`BasePruningMethod.apply`.
        """
        return super().apply(module, name, amount=amount)  # type: ignore[return-value]


class L1Unstructured(_Unstructured):
    """Prunes the elements with the smallest magnitudes.

    Parameters
    ----------
    amount : int or float
        An int is a number, a float the fraction of those that are not pruned yet.

    Raises
    ------
    TypeError
        If ``amount`` is no number.
    ValueError
        If it is negative, or a float greater than 1; when it prunes, if there are fewer than ``amount``.
    """

    def _scores(self, t: Any) -> Any:
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Any = None
    ) -> Self:
        """Prune ``amount`` elements of the parameter ``name`` of ``module``: the smallest, or the least important.

        ``importance_scores``, of the parameter's shape, take the place of its absolute values. Raises as
        :func:`nn.utils.prune.l1_unstructured`.
        """
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)  # type: ignore[return-value]


class _Structured(_Amount):
    PRUNING_TYPE = "structured"
    dim: int

    def _scores(self, t: Any, dim: int) -> Any:
        """Importance of each index along a dimension: the smallest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """``default_mask`` with 0 for the least important indices of ``t``, which has its shape.

        Raises
        ------
        ValueError
            If ``t`` has fewer than two dimensions, or fewer indices than are to be pruned.
        IndexError
            If it has no dimension ``dim``.
        AttributeError
            If the method has no ``dim``.
        """
        if t.dim() < 2:
            raise ValueError(
                f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with "
                f"{t.dim()} dims"
            )
        dim = _dimension(t, self)
        size = t.shape[dim]
        count = self._count(size)
        if not count:
            return default_mask
        mask = zeros_like(t)
        remaining = topk(self._scores(t.detach(), dim), size - count).indices
        mask[(*[slice(None)] * dim, remaining)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes random indices along a dimension.

    Parameters
    ----------
    amount : int or float
        An int is a number, a float the fraction of those that are not pruned yet.
    dim : int
        Dimension along which indices are pruned.

    Raises
    ------
    TypeError
        If ``amount`` is no number.
    ValueError
        If it is negative, or a float greater than 1; when it prunes, if there are fewer than ``amount``.
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any, dim: int) -> Any:
        return rand(t.shape[dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Self:  # type: ignore[override]
        """Prune ``amount`` indices along ``dim`` of the parameter ``name`` of ``module``.

        Returns the method, which is a forward pre-hook of the module from now on. Raises as :meth:`BasePruningMethod.apply`.
        """
        return super().apply(module, name, amount=amount, dim=dim)  # type: ignore[return-value]


class LnStructured(_Structured):
    """Prunes the indices along a dimension whose slices have the smallest norms.

    Parameters
    ----------
    amount : int or float
        An int is a number, a float the fraction of those that are not pruned yet.
    n : int, float or str
        Order of the norm, as for :func:`tensor.norm`.
    dim : int
        Dimension along which indices are pruned.

    Raises
    ------
    TypeError
        If ``amount`` is no number.
    ValueError
        If it is negative, or a float greater than 1; when it prunes, if there are fewer than ``amount``.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def _scores(self, t: Any, dim: int) -> Any:
        return t.norm(self.n, dim=[each for each in range(t.dim()) if each != dim])

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
    ) -> Self:
        """Prune ``amount`` indices along ``dim`` of the parameter ``name`` of ``module``: the smallest ``n``-norms.

        ``importance_scores``, of the parameter's shape, take the place of its elements. Raises as
        :func:`nn.utils.prune.ln_structured`.
        """
        return super().apply(  # type: ignore[return-value]
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes where ``mask`` is 0.

    Parameters
    ----------
    mask : Tensor
        Of the parameter's shape: 0 and 1, of any dtype.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The product of ``default_mask`` and the mask that was passed; ``t`` does not matter.

        Raises
        ------
        AssertionError
            If their shapes differ.
        """
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Any) -> Self:  # type: ignore[override]
        """Prune the parameter ``name`` of ``module`` where ``mask`` is 0.

        Returns the method, which is a forward pre-hook of the module from now on. Raises as :meth:`BasePruningMethod.apply`.
        """
        return super().apply(module, name, mask=mask)  # type: ignore[return-value]
