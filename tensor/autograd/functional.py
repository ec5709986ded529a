"""Jacobians and Hessians of functions, and their products with vectors.

There are backward passes only. A product of a Jacobian with a vector from the right is therefore computed by two
of them: a backward pass is linear in the gradient it starts from, and its derivative by that gradient, which is
again a backward pass, is the Jacobian itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.core.base import TensorBase
from tensor.core.modes.grad_mode import enable_grad, modes, set_grad_enabled
from tensor.core.names.absent import hints as _hints

from .differentiation import grad
from .function import Function
from .jacobians import of_reals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.methods.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

#: What the tensors are called that a user's function gives.
OUTPUTS = "outputs of the user-provided function"
_LOOSE = "This is not allowed in strict mode"
INDEPENDENT = "The output of the user-provided function is independent of input {}."
_LINEAR = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input, as that of a linear function is."
)
#: Where vectors may be left out.
_ONE_OUTPUT = "the user-provided function returns a single Tensor with a single element"
_ONE_INPUT = "the input to the user-provided function is a single Tensor with a single element"


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Product of a vector with the Jacobian of ``func``.

    Parameters
    ----------
    func : callable
        Takes tensors, and gives a tensor or a tuple of them.
    inputs : Tensor or tuple of Tensor
        Where to evaluate it.
    v : Tensor or tuple of Tensor, optional
        The vector, shaped as the outputs; may be left out where the output has one element.
    create_graph : bool
        Whether the results can be differentiated.
    strict : bool
        Whether it is an error, rather than zeros, if an output does not depend on an input.

    Returns
    -------
    outputs, product
        What ``func`` gave, and the product, shaped as the inputs.

    Raises
    ------
    TypeError
        If an input or output is not a tensor.
    RuntimeError
        If ``v`` is missing, or differs from the outputs in number or shape; in strict mode, if an output does not
        depend on an input.

    Examples
    --------
    >>> x, v = tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 10.0])
    >>> outputs, product = tensor.autograd.functional.vjp(lambda x: x * x, x, v)
    >>> product
    tensor([ 2., 40.])
    """
    with enable_grad():
        several, arguments = tensors(inputs, "inputs", "vjp")
        arguments = prepared(arguments, create_graph)
        many, outputs = tensors(func(*arguments), OUTPUTS, "vjp")
        check_outputs(outputs, strict)
        vector = checked_vector(v, outputs, many, "vjp", _ONE_OUTPUT, create_graph)
    with set_grad_enabled(create_graph or modes.recording):
        result = _gradients(outputs, arguments, vector, create_graph)
        product = fill_in(result, arguments, strict, create_graph, INDEPENDENT, "jacobian")
    return results(outputs, many, create_graph), results(product, several, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Product of the Jacobian of ``func`` with a vector.

    Parameters
    ----------
    func, inputs, create_graph, strict
        See :func:`vjp`.
    v : Tensor or tuple of Tensor, optional
        The vector, shaped as the inputs; may be left out where there is one input of one element.

    Returns
    -------
    outputs, product
        What ``func`` gave, and the product, shaped as the outputs.

    Raises
    ------
    TypeError, RuntimeError
        As :func:`vjp`, with ``v`` compared with the inputs.

    Examples
    --------
    >>> x, v = tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 10.0])
    >>> outputs, product = tensor.autograd.functional.jvp(lambda x: x * x, x, v)
    >>> product
    tensor([ 2., 40.])
    """
    with enable_grad():
        several, arguments = tensors(inputs, "inputs", "jvp")
        arguments = prepared(arguments, create_graph)
        vector = checked_vector(v, arguments, several, "jvp", _ONE_INPUT, create_graph)
        many, outputs = tensors(func(*arguments), OUTPUTS, "jvp")
        check_outputs(outputs, strict)
        seeds = _seeds(outputs)
        first = _gradients(outputs, arguments, seeds, True)
        check_gradients(
            first,
            strict,
            INDEPENDENT,
            "The gradient with respect to input {} is independent of the inputs of the user-provided function.",
        )
    with set_grad_enabled(create_graph or modes.recording):
        result = _gradients(first, seeds, vector, create_graph)
        product = fill_in(
            result,
            outputs,
            strict,
            create_graph,
            "The gradient with respect to the inputs is independent of entry {} in the grad_outputs.",
            "jacobian",
        )
    return results(outputs, many, create_graph), results(product, many, create_graph)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Product of a vector with the Hessian of ``func``, which gives a tensor with one element.

    Parameters
    ----------
    func, inputs, create_graph, strict
        See :func:`vjp`.
    v : Tensor or tuple of Tensor, optional
        The vector, shaped as the inputs; may be left out where there is one input of one element.

    Returns
    -------
    output, product
        What ``func`` gave, and the product, shaped as the inputs.

    Raises
    ------
    TypeError, RuntimeError
        As :func:`vjp`, with ``v`` compared with the inputs; RuntimeError also if ``func`` gives more than one element.

    Examples
    --------
    >>> x, v = tensor.tensor([1.0, 2.0]), tensor.ones(2)
    >>> output, product = tensor.autograd.functional.vhp(lambda x: (x**3).sum(), x, v)
    >>> product
    tensor([ 6., 12.])
    """
    with enable_grad():
        several, arguments, vector, output, first = _first_of_hessian(
            func, inputs, v, create_graph, strict, "vhp"
        )
    with set_grad_enabled(create_graph or modes.recording):
        result = _gradients(first, arguments, vector, create_graph)
        product = fill_in(
            result,
            arguments,
            strict,
            create_graph,
            "The jacobian of the user-provided function is independent of input {}.",
            "hessian",
        )
    return results(output, False, create_graph), results(product, several, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Product of the Hessian of ``func``, which gives a tensor with one element, with a vector.

    It is what :func:`vhp` gives, which takes one backward pass less, where second derivatives are continuous.

    Parameters
    ----------
    func, inputs, v, create_graph, strict
        See :func:`vhp`.

    Returns
    -------
    output, product
        What ``func`` gave, and the product, shaped as the inputs.

    Raises
    ------
    TypeError, RuntimeError
        As :func:`vhp`.

    Examples
    --------
    >>> x, v = tensor.tensor([1.0, 2.0]), tensor.ones(2)
    >>> output, product = tensor.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    >>> product
    tensor([ 6., 12.])
    """
    with enable_grad():
        several, arguments, vector, output, first = _first_of_hessian(
            func, inputs, v, create_graph, strict, "hvp"
        )
        seeds = _seeds(arguments)
        second = _gradients(first, arguments, seeds, True)
        check_gradients(
            second,
            strict,
            "The jacobian of the user-provided function is independent of input {}.",
            "The hessian of the user-provided function with respect to input {} is independent of the input.",
        )
    with set_grad_enabled(create_graph or modes.recording):
        result = _gradients(second, seeds, vector, create_graph)
        product = fill_in(
            result,
            arguments,
            strict,
            create_graph,
            "The hessian of the user-provided function is independent of entry {} in the grad_jacobian.",
            "hessian",
        )
    return results(output, False, create_graph), results(product, several, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Jacobian of ``func``.

    Parameters
    ----------
    func, inputs, create_graph, strict
        See :func:`vjp`.
    vectorize : bool
        Has no effect: there is one backward pass for each row (or column) either way.
    strategy : {"reverse-mode", "forward-mode"}
        Whether there is a backward pass for every element of the outputs, or of the inputs. The latter is
        faster where there are fewer of them.

    Returns
    -------
    Tensor, or tuple of them
        For each output and each input (a level of tuples for those that are tuples) the derivatives, with the
        shape of the output followed by that of the input.

    Raises
    ------
    TypeError
        If an input or output is not a tensor.
    RuntimeError
        In strict mode, if an output does not depend on an input; if ``strict`` comes with ``"forward-mode"``; if an
        output, or with ``"forward-mode"`` an input, is complex.
    AssertionError
        For another ``strategy``.

    Examples
    --------
    >>> tensor.autograd.functional.jacobian(lambda x: x * x, tensor.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError(
            f'Expected strategy to be either "forward-mode" or "reverse-mode", got {strategy!r}. Hint: "forward-mode" '
            'is faster for functions with more outputs than inputs, "reverse-mode" for others.'
        )
    forward = strategy == "forward-mode"
    if forward and strict:
        raise RuntimeError(
            'strict=True and strategy="forward-mode" are not supported together: set strict=False or '
            'strategy="reverse-mode"'
        )
    with enable_grad():
        several, arguments = tensors(inputs, "inputs", "jacobian")
        arguments = prepared(arguments, create_graph)
        many, outputs = tensors(func(*arguments), OUTPUTS, "jacobian")
        check_outputs(outputs, strict)
        _refuse_complex("outputs", outputs)
        if forward:
            _refuse_complex("inputs", arguments)
        compute = _by_columns if forward else _by_rows
        result = compute(outputs, arguments, create_graph, strict)
        rows = tuple(results(row, several, create_graph) for row in result)
    return rows if many else rows[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Hessian of ``func``, which gives a tensor with one element.

    Parameters
    ----------
    func, inputs, create_graph, strict, vectorize
        See :func:`jacobian`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        How the Jacobian of the gradient is computed.

    Returns
    -------
    Tensor, or tuple of tuples of them
        For each two inputs the derivatives, with the shape of the first followed by that of the second.

    Raises
    ------
    TypeError, RuntimeError, AssertionError
        As :func:`jacobian`; RuntimeError also if ``func`` gives more than one element.

    Examples
    --------
    >>> tensor.autograd.functional.hessian(lambda x: (x**3).sum(), tensor.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, arguments = tensors(inputs, "inputs", "hessian")

    def single(*x: Any) -> Any:
        return single_output(func(*x), "hessian", strict).reshape(())

    def gradient(*x: Any) -> Any:
        value = jacobian(single, x, create_graph=True)
        check_gradients(
            value,
            strict,
            "",
            _LINEAR,
        )
        return value

    result = jacobian(gradient, arguments, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if several else result[0][0]


def _first_of_hessian(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[bool, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], list[Any]]:
    """Whether there are several inputs, they, the vector, the output, and its gradients."""
    several, arguments = tensors(inputs, "inputs", name)
    arguments = prepared(arguments, create_graph)
    vector = checked_vector(v, arguments, several, name, _ONE_INPUT, create_graph)
    outputs = (single_output(func(*arguments), name, strict),)
    first = _gradients(outputs, arguments, (None,), True)
    check_gradients(
        first,
        strict,
        INDEPENDENT,
        _LINEAR,
    )
    return several, arguments, vector, outputs, first


def _refuse_complex(what: str, result: Sequence[Any]) -> None:
    for position, x in enumerate(result):
        if x.dtype.is_complex:
            raise RuntimeError(
                f"jacobian() wants real {what} here, number {position} is {x.dtype!r}: a complex function has a "
                "derivative for each part, so differentiate view_as_real() of it"
            )


def _seeds(like: Sequence[Any]) -> tuple[Any, ...]:
    """Gradients to differentiate by. What they are has no influence."""
    return tuple(x.new_zeros(x.shape).requires_grad_() for x in like)


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], gradients: Sequence[Any], create_graph: bool
) -> list[Any]:
    """Gradients of the inputs, ``None`` where nothing that has a history depends on one."""
    roots = [(x, g) for x, g in zip(outputs, gradients, strict=True) if x is not None and x.requires_grad]
    if not roots:
        return [None] * len(inputs)
    return list(
        grad(
            [x for x, _ in roots],
            inputs,
            [g for _, g in roots],
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    )


def _units(like: Any) -> Any:
    """Each vector of a basis, in the shape of a tensor."""
    count = like.numel()
    for position in range(count):
        numbers = np.zeros(count)
        numbers[position] = 1
        yield of_reals(numbers, like)


def _by_rows(
    outputs: Sequence[Any], inputs: Sequence[Any], create_graph: bool, strict: bool
) -> list[list[Tensor]]:
    result = []
    for i, output in enumerate(outputs):
        rows: list[list[Any]] = [[] for _ in inputs]
        missing = f"Output {i} of the user-provided function is independent of input {{}}."
        for unit in _units(output):
            value = _gradients((output,), inputs, (unit,), create_graph)
            filled = fill_in(value, inputs, strict, create_graph, missing, "jacobian")
            for mine, gradient in zip(rows, filled, strict=True):
                mine.append(gradient)
        result.append([_joined(mine, output, x) for mine, x in zip(rows, inputs, strict=True)])
    return result


def _by_columns(
    outputs: Sequence[Any], inputs: Sequence[Any], create_graph: bool, strict: bool
) -> list[list[Tensor]]:
    seeds = _seeds(outputs)
    first = _gradients(outputs, inputs, seeds, True)
    result: list[list[Tensor]] = [[] for _ in outputs]
    for x, gradient in zip(inputs, first, strict=True):
        columns: list[list[Any]] = [[] for _ in outputs]
        for unit in _units(x):
            value = _gradients((gradient,), seeds, (unit,), create_graph)
            for mine, each, output in zip(columns, value, outputs, strict=True):
                mine.append(output.new_zeros(output.shape) if each is None else each)
        for mine, columns_of_one, output in zip(result, columns, outputs, strict=True):
            whole = _joined(columns_of_one, x, output)
            mine.append(whole.movedim(tuple(range(x.ndim)), tuple(range(-x.ndim, 0))) if x.ndim else whole)
    return result


def _joined(parts: Sequence[Any], first: Any, second: Any) -> Tensor:
    """Parts, one for each element of ``first`` and shaped as ``second``, in one tensor."""
    shape = (*first.shape, *second.shape)
    if not parts:
        nothing: Tensor = second.new_zeros(shape)
        return nothing
    whole: Tensor = _Stack.apply(*parts)
    return whole.reshape(shape)


class _Stack(Function):
    """Tensors of one shape along a new first dimension; the operation of that name is in a layer above."""

    @staticmethod
    def forward(ctx: Any, *parts: Any) -> Any:
        whole = parts[0].new_empty((len(parts), *parts[0].shape))
        for row, part in zip(whole.unbind(0), parts, strict=True):
            row.copy_(part)
        return whole

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].unbind(0)


# What goes in


def tensors(argument: Any, what: str, name: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether several were given, and the tuple of them."""
    several = isinstance(argument, tuple)
    result = argument if several else (argument,)
    for position, each in enumerate(result):
        if not isinstance(each, TensorBase):
            where = f"value at index {position}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {where} has type "
                f"{type(each)}."
            )
    return several, result


def prepared(argument: Sequence[Any], create_graph: bool, *, requires_grad: bool = True) -> tuple[Any, ...]:
    """Tensors of our own, so that nothing is accumulated in the caller's."""
    return tuple(
        x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_(requires_grad)
        for x in argument
    )


def checked_vector(
    v: Any, like: Sequence[Any], several: bool, name: str, unless: str, create_graph: bool
) -> tuple[Any, ...]:
    """The checked vector, shaped as ``like``."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {unless}.")
        return (None,)
    _, result = tensors(v, "v", name)
    if len(result) != len(like):
        if several:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(result)}."
            )
        raise RuntimeError(f"The given v should contain a single Tensor, got {len(result)}.")
    for position, (each, expected) in enumerate(zip(result, like, strict=True)):
        if each.shape != expected.shape:
            entry = f"Entry {position} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {expected.shape} but got {each.shape}.")
    return prepared(result, create_graph, requires_grad=False)


def single_output(output: Any, name: str, strict: bool) -> Any:
    """The only output, with one element."""
    many, outputs = tensors(output, OUTPUTS, name)
    check_outputs(outputs, strict)
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element, its shape is "
            f"{list(outputs[0].shape)}"
        )
    return outputs[0]


# What comes out


def check_outputs(outputs: Sequence[Any], strict: bool) -> None:
    for position, output in enumerate(outputs if strict else ()):
        if not output.requires_grad:
            raise RuntimeError(
                f"Output {position} of the user-provided function does not require gradients. The outputs must be "
                "computed in a differentiable manner from the input when running in strict mode."
            )


def check_gradients(result: Sequence[Any], strict: bool, missing: str, constant: str) -> None:
    for position, each in enumerate(result if strict else ()):
        if each is None:
            raise RuntimeError(f"{missing.format(position)} {_LOOSE}.")
        if not each.requires_grad:
            raise RuntimeError(f"{constant.format(position)} {_LOOSE}.")


def fill_in(
    value: Sequence[Any],
    like: Sequence[Any],
    strict: bool,
    create_graph: bool,
    missing: str,
    kind: str,
) -> tuple[Any, ...]:
    """Zeros for ``None``; both that and what cannot be differentiated further is an error in strict mode."""
    result = []
    for position, (each, x) in enumerate(zip(value, like, strict=True)):
        if strict and each is None:
            raise RuntimeError(f"{missing.format(position)} {_LOOSE}.")
        if strict and create_graph and not each.requires_grad:
            raise RuntimeError(
                f"The {kind} of the user-provided function is independent of input {position}. {_LOOSE} when "
                "create_graph=True."
            )
        result.append(x.new_zeros(x.shape) if each is None else each)
    return tuple(result)


def results(result: Sequence[Any], several: bool, create_graph: bool) -> Any:
    values = tuple(result) if create_graph else tuple(x.detach() for x in result)
    return values if several else values[0]


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
