"""Programs about ``__torch_function__`` that run with graphroot and with PyTorch: ``library`` is either."""

from __future__ import annotations

from typing import Any


def shown(value: Any) -> Any:
    """What two libraries can be compared by."""
    if isinstance(value, (tuple, list)):
        return [shown(each) for each in value]
    if hasattr(value, "tolist"):
        return type(value).__name__, shown(value.tolist())
    return round(value, 5) if isinstance(value, float) else value


def default_subclass(library: Any) -> list[Any]:
    """What comes of operations on objects of a class that overrides nothing."""

    class Own(library.Tensor):
        pass

    class Derived(Own):
        pass

    functional = library.nn.functional
    x = library.tensor([[3.0, 1.0], [2.0, 4.0]]).as_subclass(Own)
    plain = library.ones(2, 2)
    derived = plain.as_subclass(Derived)
    results = [
        x + 1, 1 - x, 2 * x, plain + x, plain.add(x), library.add(plain, x), x @ plain, plain @ x, -x, x > 2, x[0], x[:, 1],
        x.sum(), x.max(0), x.split(1), x.double(), x.clone(), x.detach(), x.t(), x.T, x.data, x.reshape(-1), x.unbind(),
        library.cat([plain, x]), library.stack((x, x)), library.where(plain > 0, x, plain), library.zeros_like(x),
        functional.relu(x - 2), functional.linear(plain, x), functional.softmax(x, dim=0), library.linalg.norm(x),
        library.fft.fft(x[0]).real, x.shape, x.size(), x.dim(), len(x), x.tolist(), x.sum().item(), x + derived, derived + x,
        list(iter(x)), x.new_zeros(1), x.to(library.float64), x.numpy(), library.special.expit(plain.sub(x)),
        library.sort(x).values, x.addmm(plain, plain), x.index_select(0, library.tensor([1])), bool(x[0, 0] > 1),
    ]  # fmt: skip
    y = x.clone()
    y += 1
    results += [y, y.mul_(2), y.copy_(plain), plain.clone().copy_(x), library.add(plain, plain, out=y)]
    leaf = plain.clone().as_subclass(Own).requires_grad_()
    loss = (leaf * x).sum()
    loss.backward()
    results += [loss, leaf.grad, leaf.is_leaf, type(leaf.grad).__name__]
    with library._C.DisableTorchFunctionSubclass():
        results += [x + 1, library.cat([x, x])]
    return [shown(each) for each in results]


def logged(library: Any) -> list[Any]:
    """Which functions a handler of its own sees, and with which classes."""
    seen: list[Any] = []
    resolve = library.overrides.resolve_name

    class Logged(library.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((resolve(func), [each.__name__ for each in types], len(args)))
            return super().__torch_function__(func, types, args, kwargs)

    class Other(library.Tensor):
        pass

    functional = library.nn.functional
    plain = library.ones(2)
    x = plain.as_subclass(Logged)
    x + 1, 1 + x, x - plain, x * 2, x / 2, x // 2, x % 2, x**2, -x, abs(x), x == x, x > 0, plain + x
    x.add(1), x.sum(), x.shape, x.grad, x.requires_grad, x[0], len(x), x.clone(), x.mean(dim=0)
    library.add(x, 1), library.cat([plain, x]), functional.relu(x), library.fft.fft(x), library.linalg.norm(x)
    library.special.expit(x), functional.softmax(x, dim=0), functional.linear(x, library.ones(2, 2))
    x.mul_(2), x.__iadd__(1), library.add(plain, 1, out=x)
    try:
        x + plain.as_subclass(Other)
    except TypeError:
        seen.append("TypeError")
    return seen


def duck(library: Any) -> list[Any]:
    """Objects that are no tensors, as NumPy's users know the like."""
    handled: dict[Any, Any] = {}

    def implements(function: Any) -> Any:
        def decorate(own: Any) -> Any:
            handled[function] = own
            return own

        return decorate

    class Scalar:
        def __init__(self, size: int, value: float) -> None:
            self.size, self.value = size, value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in handled or not all(issubclass(each, (library.Tensor, Scalar)) for each in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    @implements(library.mean)
    def mean(x: Any) -> float:
        return float(x.value) / x.size

    @implements(library.add)
    def add(x: Any, other: Any) -> Any:
        return "added", type(x).__name__, type(other).__name__

    results = [
        library.mean(Scalar(5, 2)),
        library.add(library.ones(1), Scalar(2, 1)),
        library.add(Scalar(2, 1), 1),
    ]
    try:
        library.mul(Scalar(5, 2), 2)
    except TypeError as error:
        results.append("no implementation" in str(error) or "NotImplemented" in str(error))
    is_like, asks = library.overrides.is_tensor_like, library.overrides.has_torch_function
    results += [is_like(Scalar(1, 1)), is_like(1), asks((1, library.ones(1))), asks((Scalar(1, 1),))]
    results += [asks((library.nn.Parameter(library.ones(1)),))]
    return results


def modes(library: Any) -> list[Any]:
    """Modes see what is called, innermost first, and none inside of its own handler."""
    seen: list[Any] = []
    resolve = library.overrides.resolve_name

    class Logging(library.overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            # Of plain tensors PyTorch tells types in some functions and not in others.
            seen.append((self.name, resolve(func), [each.__name__ for each in types if each is Own]))
            return func(*args, **(kwargs or {}))

    class Own(library.Tensor):
        pass

    x = library.ones(2)
    with Logging("outer"):
        (
            x + 1,
            library.zeros(2),
            library.arange(3),
            x.shape,
            library.cat([x, x]),
            library.nn.functional.relu(x),
        )
        with Logging("inner"):
            results = [library.full((2,), 3.0), x.as_subclass(Own).mul(2)]
        with library._C.DisableTorchFunction():
            x.sub(1)
        with library._C.DisableTorchFunctionSubclass():
            x.sub(2)
        x.exp()
    x.log()
    return [seen, shown(results)]


PROGRAMS = (default_subclass, logged, duck, modes)
