"""Which elements of a parameter are pruned, and how a module is made to prune them."""

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
    """A way to choose elements to prune: a hook that sets the pruned tensor before each forward pass.

    The parameter ``name`` of a module becomes ``name_orig``, which is learned; the buffer ``name_mask`` is 0 where
    elements are pruned; ``name`` is the product of both. A subclass defines :meth:`compute_mask` and ``PRUNING_TYPE``:
    "unstructured" (elements), "structured" (whole positions along the dimension ``dim``) or "global".
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Set the pruned tensor."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """Mask for elements of the importance ``t``, of which ``default_mask`` has pruned some before."""

    def apply_mask(self, module: Module) -> Any:
        """The pruned tensor."""
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter ``name`` of ``module``, in addition to what is pruned of it already.

        Parameters
        ----------
        *args, **kwargs
            For the method.
        importance_scores
            Of the shape of the parameter: what decides in place of its elements.
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
        found = [(key, hook) for key, hook in hooks_of(module) if hook._tensor_name == name]
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        if not found:
            mask = method.compute_mask(scores, default_mask=ones_like(original)).detach()
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
            return _install(method, module, mask)
        key, before = found[0]
        container = before if isinstance(before, PruningContainer) else PruningContainer(before)
        given = getattr(module, f"{name}_mask").detach().clone()
        mask = container._combined(method, scores, given).detach()
        container.add_pruning_method(method)
        del module._forward_pre_hooks[key]
        return _install(container, module, mask)

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """``t`` with pruned elements 0."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        given = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=given)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter, for good. The hook itself is left to whoever called."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(f"{name}_orig")
        original.data = pruned.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hooks_of(module: Module) -> list[tuple[int, BasePruningMethod]]:
    """The hooks of ``module`` that prune, by their places in its table."""
    hooks = [(key, hook.function) for key, hook in module._forward_pre_hooks.items()]
    return [(key, hook) for key, hook in hooks if isinstance(hook, BasePruningMethod)]


def _install(method: BasePruningMethod, module: Module, mask: Any) -> BasePruningMethod:
    module.register_buffer(f"{method._tensor_name}_mask", mask)
    method(module, None)
    module.register_forward_pre_hook(method)
    return method


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter, each of which prunes of what the ones before it left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method for the same parameter."""
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
        """``default_mask`` with what the last method prunes of its rest."""
        return self._combined(self._pruning_methods[-1], t, default_mask)

    @staticmethod
    def _combined(method: BasePruningMethod, t: Any, mask: Any) -> Any:
        part: Any
        if method.PRUNING_TYPE == "unstructured":
            part = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = _dimension(t, method)
            others = [each for each in range(t.dim()) if each != dim]
            part = (*[slice(None)] * dim, mask.sum(others) != 0)
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        made = mask.to(dtype=t.dtype).clone()
        made[part] = method.compute_mask(t[part], default_mask=mask[part]).to(dtype=made.dtype)
        return made


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
    """Prunes nothing; the parameter gets a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask that is there."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Self:  # type: ignore[override]
        """Give the parameter ``name`` of ``module`` a mask."""
        return super().apply(module, name)  # type: ignore[return-value]


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind)


class _Amount(BasePruningMethod):
    """Prunes a number of elements or positions, or a share of them."""

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
            share: int = round(self.amount * total)
            return share
        if self.amount > total:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={total}"
            )
        return int(self.amount)


class _Unstructured(_Amount):
    PRUNING_TYPE = "unstructured"

    def _scores(self, t: Any) -> Any:
        """What is pruned where it is least."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The given mask with 0 for the least important elements."""
        count = self._count(t.numel())
        flat = default_mask.flatten().clone()
        if count:
            flat[topk(self._scores(t.detach()).flatten(), count, largest=False).indices] = 0
        return flat.reshape(default_mask.shape)


class RandomUnstructured(_Unstructured):
    """Prunes random elements."""

    def _scores(self, t: Any) -> Any:
        return rand_like(t)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Self:  # type: ignore[override]
        """Prune so many elements of the parameter ``name`` of ``module``, or a share from 0 to 1."""
        return super().apply(module, name, amount=amount)  # type: ignore[return-value]


class L1Unstructured(_Unstructured):
    """Prunes the elements with the least absolute values."""

    def _scores(self, t: Any) -> Any:
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Any = None
    ) -> Self:
        """Prune so many elements of the parameter ``name`` of ``module``, or a share from 0 to 1."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)  # type: ignore[return-value]


class _Structured(_Amount):
    PRUNING_TYPE = "structured"
    dim: int

    def _scores(self, t: Any, dim: int) -> Any:
        """For each position along a dimension what is pruned where it is least."""
        raise NotImplementedError

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The given mask with 0 for the least important positions."""
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
        kept = topk(self._scores(t.detach(), dim), size - count).indices
        mask[(*[slice(None)] * dim, kept)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes random positions along a dimension."""

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any, dim: int) -> Any:
        return rand(t.shape[dim], device=t.device)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> Self:  # type: ignore[override]
        """Prune so many positions along ``dim`` of the parameter ``name`` of ``module``, or a share from 0 to 1."""
        return super().apply(module, name, amount=amount, dim=dim)  # type: ignore[return-value]


class LnStructured(_Structured):
    """Prunes the positions along a dimension whose elements have the least ``n``-norms."""

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
        """Prune so many positions along ``dim`` of the parameter ``name`` of ``module``, or a share from 0 to 1."""
        return super().apply(  # type: ignore[return-value]
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Any) -> Self:  # type: ignore[override]
        """Prune the parameter ``name`` of ``module`` where ``mask`` is 0."""
        return super().apply(module, name, mask=mask)  # type: ignore[return-value]
