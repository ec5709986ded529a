"""``gradcheck`` and ``gradgradcheck``: derivatives compared with differences."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import dtypes
from tensor.core.base import TensorBase, wrap
from tensor.core.names.absent import hints as _hints

from . import jacobians
from .differentiation import grad
from .function import Function, FunctionNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tensor.methods.tensor import Tensor

    from .jacobians import Jacobian, Reals

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative is wrong: it differs from differences, from run to run, or has the wrong dtype. A ``RuntimeError``."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func`` with central differences.

    >>> x = tensor.tensor([0.5, 1.0], dtype=tensor.float64, requires_grad=True)
    >>> tensor.autograd.gradcheck(tensor.sin, x)
    True

    Parameters
    ----------
    func : callable
        A function of ``inputs`` that gives a tensor or several.
    inputs
        A tensor, or a sequence of tensors and anything else. Those that require grad are checked; they should be
        float64 or complex128, as others are not precise enough for the default tolerances. They are changed in
        place and restored.
    eps : float
        How far an element is moved in either direction.
    atol, rtol : float
        An element of the Jacobian may be off by ``atol + rtol * abs(numerical)``.
    raise_exception : bool
        Whether a wrong derivative is an error; else the result says so.
    nondet_tol : float
        How much gradients of two equal backward passes may differ.
    check_undefined_grad : bool
        Whether to check that outputs without a gradient count as those with a gradient of zeros.
    check_grad_dtypes : bool
        Whether to check that each ``autograd.Function`` gives gradients of the dtypes of its inputs.
    check_batched_grad, check_batched_forward_grad, check_forward_ad : bool
        False: there are no batched or forward derivatives.
    check_backward_ad : bool
        True: there are no others to check.
    fast_mode : bool
        Whether to compare one random combination of the elements of each Jacobian instead of all.
    masked : bool, optional
        Has a meaning for sparse tensors only.

    Returns
    -------
    bool
        Whether the derivatives are right.

    Raises
    ------
    GradcheckError
        If ``raise_exception`` and a derivative is wrong.
    ValueError
        If no input requires grad, or forward or batched derivatives shall be checked, which there are not.
    RuntimeError
        If elements of an input that requires grad overlap in memory.
    """
    _refuse(
        check_batched_grad=check_batched_grad,
        check_batched_forward_grad=check_batched_forward_grad,
        check_forward_ad=check_forward_ad,
    )
    if not check_backward_ad:
        raise ValueError("nothing to check: check_backward_ad=False, and there are no forward derivatives")
    arguments = as_tuple(inputs)
    check = DerivativeCheck(func, arguments, _checked_inputs(arguments), eps, atol, rtol)
    try:
        check.run(
            fast=fast_mode,
            nondet_tol=nondet_tol,
            undefined=check_undefined_grad,
            grad_dtypes=check_grad_dtypes,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the gradients of gradients of ``func`` with central differences.

    >>> x = tensor.tensor([0.5, 1.0], dtype=tensor.float64, requires_grad=True)
    >>> tensor.autograd.gradgradcheck(tensor.sin, x)
    True

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, fast_mode, masked
        See :func:`gradcheck`.
    nondet_tol, check_undefined_grad, check_grad_dtypes
        See :func:`gradcheck`.
    grad_outputs : optional
        A gradient for each output; by default random ones.
    gen_non_contig_grad_outputs : bool
        Whether those have gaps between their elements.
    check_batched_grad, check_fwd_over_rev : bool
        False: there are no batched or forward derivatives.
    check_rev_over_rev : bool
        True: there are no others to check.

    Returns
    -------
    bool
        Whether the derivatives are right.

    Raises
    ------
    GradcheckError, ValueError, RuntimeError
        As :func:`gradcheck`.
    """
    _refuse(check_fwd_over_rev=check_fwd_over_rev)
    if not check_rev_over_rev:
        raise ValueError("nothing to check: check_rev_over_rev=False, and there are no forward derivatives")
    arguments = as_tuple(inputs)
    _checked_inputs(arguments)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        gradients = tuple(
            random_like(output, random, gaps=gen_non_contig_grad_outputs)
            for output in differentiable(func(*arguments))
        )
    else:
        gradients = as_tuple(grad_outputs)
    count = len(arguments)

    def gradients_of(*arguments: Any) -> tuple[Any, ...]:
        used = [x for x in arguments[:count] if requires_grad(x)]
        result = grad(
            differentiable(func(*arguments[:count])),
            used,
            arguments[count:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(gradient for gradient in result if gradient is not None)

    return gradcheck(
        gradients_of,
        arguments + gradients,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        masked=masked,
    )


def _refuse(**asked: bool) -> None:
    for name, value in asked.items():
        if value:
            raise ValueError(
                f"{name}=True is not supported: there are neither forward nor batched derivatives"
            )


def _checked_inputs(arguments: Sequence[Any]) -> list[Tensor]:
    """The checked inputs."""
    result: list[Tensor] = []
    for position, argument in enumerate(arguments):
        if not requires_grad(argument):
            continue
        if argument.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex: it is "
                f"{argument.dtype!r}. This check will likely fail if all the inputs are not of double precision floating "
                "point or complex.",
                stacklevel=3,
            )
        overlaps = any(
            step == 0 and size > 1 for step, size in zip(argument.stride(), argument.shape, strict=True)
        )
        if overlaps and argument.numel():
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
        result.append(argument)
    if not result:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )
    return result


def as_tuple(argument: Any) -> tuple[Any, ...]:
    """A tuple or list as a tuple; anything else as its only element."""
    return tuple(argument) if isinstance(argument, (tuple, list)) else (argument,)


def requires_grad(argument: Any) -> bool:
    """Whether it is a tensor that requires grad."""
    return isinstance(argument, TensorBase) and argument.requires_grad


def differentiable(outputs: Any) -> tuple[Tensor, ...]:
    """Those of a function's outputs that require grad."""
    return tuple(x for x in as_tuple(outputs) if requires_grad(x))


def random_like(output: Tensor, random: np.random.Generator, *, gaps: bool) -> Tensor:
    """Random leaf with shape, dtype and device of ``output``; with ``gaps`` its elements do not adjoin."""
    numbers = random.standard_normal(output.numel() * (2 if output.dtype.is_complex else 1))
    result = jacobians.of_reals(numbers, output)
    if gaps:
        padded = output.new_zeros((*output.shape, 2))
        result = padded.select(-1, 0).copy_(result)
    return result.detach().requires_grad_()


class DerivativeCheck:
    """One check of a function at some inputs."""

    def __init__(
        self,
        func: Callable[..., Any],
        arguments: tuple[Any, ...],
        inputs: Sequence[Tensor],
        eps: float,
        atol: float,
        rtol: float,
    ) -> None:
        self.func = func
        self.arguments = arguments
        self.inputs = [jacobians.Input(x) for x in inputs]
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.random = np.random.default_rng(0)
        self.shapes: list[Any] = []

    def run(self, *, fast: bool, nondet_tol: float, undefined: bool, grad_dtypes: bool) -> None:
        """Raise GradcheckError if a derivative is wrong."""
        outputs = self.outputs()
        if not outputs:
            self.check_constant(fast=fast)
            return
        if grad_dtypes:
            self.check_kinds(outputs)
        if fast:
            self.compare_along(outputs)
        else:
            self.compare(self.by_differences(), jacobians.by_backward(outputs, self.inputs), outputs)
        self.check_same_again(outputs, nondet_tol)
        self.check_zeros(outputs)
        if undefined:
            self.check_undefined()

    def outputs(self) -> tuple[Tensor, ...]:
        """Outputs that have a derivative."""
        return differentiable(self.func(*self.arguments))

    def values(self) -> list[Reals]:
        """What :meth:`outputs` are."""
        return self.read(self.outputs())

    def read(self, outputs: Sequence[Tensor]) -> list[Reals]:
        """Numbers of outputs, which must be like those of every other call."""
        shapes = [(list(x.shape), x.dtype) for x in outputs]
        if not self.shapes:
            self.shapes = shapes
        if shapes != self.shapes:
            raise GradcheckError(
                f"Expected func to return outputs of the same shapes and dtypes in every call, also where its inputs "
                f"are moved by {self.eps}: got {shapes} after {self.shapes}"
            )
        return [jacobians.reals(x) for x in outputs]

    def by_differences(self) -> Jacobian:
        try:
            return jacobians.by_differences(self.values, self.inputs, self.eps)
        except ArithmeticError as error:
            raise GradcheckError(str(error)) from None

    def check_constant(self, *, fast: bool) -> None:
        """Where nothing has a derivative, nothing may change."""

        def evaluate() -> list[Reals]:
            return self.read([x for x in as_tuple(self.func(*self.arguments)) if isinstance(x, TensorBase)])

        if fast:
            result = [
                [each[None] for each in jacobians.along(evaluate, x, self.direction(len(x.former)), self.eps)]
                for x in self.inputs
            ]
        else:
            result = jacobians.by_differences(evaluate, self.inputs, self.eps)
        for i, mine in enumerate(result):
            for j, matrix in enumerate(mine):
                if np.any(matrix):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: output {j} changes with input {i}, but "
                        f"no output requires grad,\nnumerical:{_shown(matrix)}"
                    )

    def compare(self, numerical: Jacobian, analytical: Jacobian, outputs: Sequence[Tensor]) -> None:
        """Compare all elements."""
        for i, argument in enumerate(self.inputs):
            for j, output in enumerate(outputs):
                pairs = _parts(numerical[i][j], analytical[i][j], argument.tensor, output)
                for part, expected, result in pairs:
                    self.check_equal(expected, result, f"{part}for output {j} with respect to input {i}")

    def check_equal(self, expected: NDArray[Any], result: NDArray[Any], where: str) -> None:
        wrong = ~(np.abs(result - expected) <= self.atol + self.rtol * np.abs(expected))
        if not wrong.any():
            return
        off = np.where(wrong, np.abs(result - expected), 0)
        row, column = (int(at) for at in np.unravel_index(np.argmax(off), off.shape))
        hint = ""
        if np.iscomplexobj(result) and np.allclose(result, expected.conj(), self.rtol, self.atol):
            hint = "The analytical Jacobian is the conjugate of the numerical one.\n"
        elif not result.any():
            hint = (
                "The analytical Jacobian is zero: perhaps the graph was cut, by detach() or in no_grad().\n"
            )
        raise GradcheckError(
            f"Jacobian mismatch {where},\nnumerical:{_shown(expected)}\nanalytical:{_shown(result)}\n{hint}"
            f"{int(wrong.sum())} of {wrong.size} elements are off by more than atol={self.atol} + rtol={self.rtol} * "
            f"abs(numerical); the worst is [{row}, {column}] (element {row} of the input, {column} of the output): "
            f"{result[row, column]} instead of {expected[row, column]}"
        )

    def direction(self, count: int) -> Reals:
        """Random numbers of length 1."""
        result = self.random.standard_normal(count)
        length = np.linalg.norm(result)
        return result / length if length else result

    def compare_along(self, outputs: Sequence[Tensor]) -> None:
        """Compare a random combination of the elements of each Jacobian."""
        tensors = [argument.tensor for argument in self.inputs]
        rows = [self.direction(len(argument.former)) for argument in self.inputs]
        slopes = [
            jacobians.along(self.values, argument, row, self.eps)
            for argument, row in zip(self.inputs, rows, strict=True)
        ]
        for j, output in enumerate(outputs):
            column = self.direction(output.numel() * (2 if output.dtype.is_complex else 1))
            result = jacobians.backward(output, tensors, column)
            for i, row in enumerate(rows):
                expected = float(slopes[i][j] @ column)
                gradient = result[i]
                analytical = 0.0 if gradient is None else float(gradient @ row)
                # What an error of atol in every element comes to.
                allowed = self.atol * np.abs(row).sum() * np.abs(column).sum() + self.rtol * abs(expected)
                if not abs(analytical - expected) <= allowed:
                    raise self.missed(i, j, expected, analytical, outputs)

    def missed(
        self, i: int, j: int, expected: float, result: float, outputs: Sequence[Tensor]
    ) -> GradcheckError:
        """The error of the fast mode, with both matrices where all elements show it too."""
        said = (
            f"Jacobian mismatch for output {j} with respect to input {i} (fast mode, one random combination of all "
            f"elements),\nnumerical:{expected}\nanalytical:{result}\n"
        )
        try:
            self.compare(self.by_differences(), jacobians.by_backward(outputs, self.inputs), outputs)
        except GradcheckError as error:
            return GradcheckError(f"{said}Of all elements:\n{error}")
        return GradcheckError(
            f"{said}Each single element is within its tolerance: pass fast_mode=False, or a larger atol"
        )

    def check_same_again(self, outputs: Sequence[Tensor], tolerance: float) -> None:
        """Two equal backward passes shall give the same. Dense gradients show sums in varying order too."""
        tensors = [argument.tensor for argument in self.inputs]
        for j, output in enumerate(outputs):
            numbers = self.random.standard_normal(output.numel() * (2 if output.dtype.is_complex else 1))
            first, second = (jacobians.backward(output, tensors, numbers) for _ in range(2))
            for i, (a, b) in enumerate(zip(first, second, strict=True)):
                a, b = (np.zeros(1) if x is None else x for x in (a, b))
                if not np.array_equal(a, b, equal_nan=True) and not np.all(np.abs(a - b) <= tolerance):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple "
                        f"times gives different values: up to {np.max(np.abs(a - b))} apart for output {j} with "
                        f"respect to input {i}, although analytical gradient matches numerical gradient. The "
                        f"tolerance for nondeterminism was {tolerance}: pass a larger nondet_tol if that is expected"
                    )

    def gradients(self, outputs: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Reals]:
        """Gradients of the inputs, with zeros for ``None``."""
        tensors = [each.tensor for each in self.inputs]
        result = grad(outputs, tensors, arguments, retain_graph=True, allow_unused=True)
        return [
            np.zeros_like(each.former) if gradient is None else jacobians.reals(gradient)
            for each, gradient in zip(self.inputs, result, strict=True)
        ]

    def check_zeros(self, outputs: Sequence[Tensor]) -> None:
        """A gradient of zeros must give zeros."""
        for i, gradient in enumerate(self.gradients(outputs, [_zeros(x) for x in outputs])):
            if np.any(gradient):
                raise GradcheckError(
                    f"backward not multiplied by grad_output: the gradient of input {i} is {_shown(gradient)} where "
                    "those of all outputs are zeros"
                )

    def check_undefined(self) -> None:
        """No gradient must be as good as one of zeros, for all outputs and for each of several."""
        outputs = self.outputs()
        cases = [list(range(len(outputs)))]
        if len(outputs) > 1:
            cases += [[j] for j in range(len(outputs))]
        for missing in cases:
            arguments = [random_like(x, self.random, gaps=False).detach() for x in outputs]
            undefined = [_Undefined.apply(x) if j in missing else x for j, x in enumerate(outputs)]
            try:
                result = self.gradients(undefined, arguments)
            except Exception as error:
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads: without that of output "
                    f"{missing if len(missing) > 1 else missing[0]} it raised {type(error).__name__}: {error}"
                ) from error
            zeroed = [
                _zeros(x) if j in missing else each
                for j, (x, each) in enumerate(zip(outputs, arguments, strict=True))
            ]
            for i, (a, b) in enumerate(zip(result, self.gradients(outputs, zeroed), strict=True)):
                if not np.allclose(a, b, self.rtol, self.atol, equal_nan=True):
                    raise GradcheckError(
                        "Expected all input grads to be undefined or zero when all output grads are undefined or zero, "
                        f"and those without a grad of output {missing if len(missing) > 1 else missing[0]} to be as "
                        f"those with zeros: input {i} gets {_shown(a)} instead of {_shown(b)}"
                    )

    def check_kinds(self, outputs: Sequence[Tensor]) -> None:
        """Gradients that Functions give shall have the dtypes of their inputs. The engine converts them."""
        wrong: list[str] = []
        handles = []
        for node in _functions(outputs):

            def look(results: Any, _: Any, node: FunctionNode = node) -> None:
                for position, (result, edge) in enumerate(zip(results, node.next, strict=True)):
                    if result is None or edge is None:
                        continue
                    expected = edge[0].layouts[edge[1]].dtype
                    if result.dtype is not expected:
                        wrong.append(
                            f"{node.name()} returned a gradient of {result.dtype!r} at position {position + 1}, the "
                            f"input is {expected!r}"
                        )

            handles.append(node.register_hook(look))
        try:
            self.gradients(outputs, [_zeros(x) for x in outputs])
        finally:
            for handle in handles:
                handle.remove()
        if wrong:
            raise GradcheckError(f"Gradient has dtype mismatch: {wrong[0]}")


class _Undefined(Function):
    """Takes a gradient and passes none on."""

    @staticmethod
    def forward(ctx: Any, argument: Any) -> Any:
        return argument.view_as(argument)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return None


def _zeros(like: Tensor) -> Tensor:
    return like.new_zeros(like.shape)


def _functions(outputs: Sequence[Tensor]) -> list[FunctionNode]:
    """Nodes of Functions that the outputs come from."""
    seen: set[Any] = set()
    waiting: list[Any] = [x.grad_fn for x in outputs]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [edge[0] for edge in node.next if edge is not None]
    return [node for node in seen if isinstance(node, FunctionNode)]


def _parts(
    numerical: Reals, analytical: Reals, argument: Tensor, output: Tensor
) -> list[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Both matrices, a complex row for each complex element of the input, for each part of a complex output."""

    def whole(matrix: Reals) -> NDArray[Any]:
        return matrix[0::2] + 1j * matrix[1::2] if argument.dtype.is_complex else matrix

    if not output.dtype.is_complex:
        return [("", whole(numerical), whole(analytical))]
    return [
        (f"({name} part of complex outputs) ", whole(numerical[:, at::2]), whole(analytical[:, at::2]))
        for at, name in enumerate(("real", "imaginary"))
    ]


def _shown(numbers: NDArray[Any]) -> str:
    return repr(wrap(np.ascontiguousarray(numbers)))


if not TYPE_CHECKING:  # a module with __getattr__ has every name for a type checker
    __getattr__ = _hints(__name__)
