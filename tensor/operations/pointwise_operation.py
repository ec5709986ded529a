"""Pointwise operations: the same expression for every element.

An operation is one row: its name, its CUDA expression, its NumPy form, its promotion rule and its
derivatives. From the row and the layouts of the operands everything else follows; it is worked out at the
first call with such operands and kept as a plan (see :class:`tensor.core.devices.state.Plans`). A call then is one
look-up, one allocation and one launch.
"""

from __future__ import annotations

import inspect
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from nvrtc_kernels import host_loops
from nvrtc_kernels import layouts as strides_of
from nvrtc_kernels import pointwise as kernels
from nvrtc_kernels.dtypes import STORAGE_ONLY, Category, bfloat16, dtype, float16, float32, int64, uint64
from tensor.autograd.recording.inplace import attach_in_place, check_in_place
from tensor.autograd.recording.recorder import BackwardFormula, Derivative, mask_of
from tensor.core.base import TensorBase, maker
from tensor.core.creation_arguments import shaped
from tensor.core.dtypes import promotion as rules
from tensor.core.dtypes.scalars import packed_number, wrapped
from tensor.core.host import half_precision, native_loops
from tensor.core.host.broadcasting import use_rows_in_place
from tensor.core.host.scratch import BLOCK, scratch
from tensor.core.modes.grad_mode import modes
from tensor.core.plans import not_implemented
from tensor.core.plans.copies import host_conversion
from tensor.core.sparse import SparseOperandError

from .pointwise_node import node_name
from .results import check_partial_overlap, check_target, result_layout
from .sparse_rules import on_sparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tensor.autograd.recording.recorder import OperationNode
    from tensor.core.layout import Layout
    from tensor.methods.tensor import Tensor

#: ``out=IN_PLACE`` writes the result to the first operand, and records that.
IN_PLACE: Any = object()
_LETTERS = "abcdefgh"
#: Elements that a NumPy form with several steps is computed for at a time, so that its arrays stay in the cache.
_BLOCK = 1 << 16
#: Elements from which on it is worth telling NumPy how to go over operands that are stretched or have gaps.
_MANY = 1 << 16
#: Elements of half precision from which on a table of all results is worth it, and how many tables an operation has.
_TABULATED, _TABLES = 1 << 18, 8
_HALVES = (float16, bfloat16)
_NUMBERS = (bool, int, float, complex)


class Pointwise:
    """A pointwise operation.

    Parameters
    ----------
    name : str
        As users call it; kernels and errors have it.
    cuda : str or callable
        CUDA C++ expression of the operands ``a``, ``b``, ...; the type they are computed in is ``Compute``.
        A callable gives the expression for a type to compute in, see :func:`by_category`.
    numpy : callable
        The same on NumPy arrays (or numbers) of the type that is computed in. One that takes an ``out`` writes its result
        there, and may use it for what comes before: it does not lie where an operand does. See also :func:`one_pass`.
    rule : callable
        Promotion: see :mod:`tensor.core.dtypes.promotion`.
    derivatives : sequence
        For each operand a :class:`.Derivative` by ``grad`` and any of ``a``, ``b``, ..., ``out``, or a function whose
        parameters name these; ``None`` where there is none.
    typed : int, optional
        How many operands decide about types; those after them are converted. All by default.
    masks : int
        How many operands at the end are bools that stay so; the expression has them with an underscore, as
        ``c_``.
    numbers : str, optional
        Letters of the operands that may be numbers instead of tensors; all by default.
    categories : sequence of Category
        Categories of the operands' promoted dtype that make sense.
    check : callable, optional
        ``check(signature, promoted)`` raises where operands (layouts; classes, for numbers) make
        no sense.
    wide_integers : bool
        Whether integers are computed with in 64 bits where a number takes part, which another type may not
        hold.
    include : str
        Header that the expression needs; complex types have ``complex_math.cuh`` in its place.
    options : tuple of str
        Options of NVRTC for the operation's kernels.
    node : str or callable, optional
        Name of the nodes, which is PyTorch's; or a function that gives it for operands, by which of them are
        numbers. By default it follows from ``name``.
    row_major : bool
        Whether new results are row-major, and do not lie as the operands do.
    stored : sequence of dtype
        Dtypes that it computes in of those whose elements are only stored; other ones raise NotImplementedError.
    half : callable, optional
        ``half(bits, infinity, out)``: the same on the bits of half precision, uint16, of which infinity's are given.
    tabulated : bool
        Whether the NumPy form has so many steps that it is quicker to look up results for bfloat16 in a table. Those for float16,
        whose conversions take longer, always are.
    """

    #: The dtype that is computed in decides, which need not be that of an operand.
    takes = STORAGE_ONLY

    def __init__(
        self,
        name: str,
        cuda: str | Callable[[dtype], str],
        numpy: Callable[..., Any],
        *,
        rule: Callable[[dtype], tuple[dtype, dtype]] = rules.same,
        derivatives: Sequence[Derivative | Callable[..., Any] | None] = (),
        typed: int | None = None,
        masks: int = 0,
        numbers: str = _LETTERS,
        categories: Sequence[Category] = tuple(Category),
        check: Callable[[Sequence[Any], dtype], None] | None = None,
        wide_integers: bool = False,
        include: str = "",
        options: tuple[str, ...] = (),
        node: str | Callable[..., str] = "",
        row_major: bool = False,
        stored: Sequence[dtype] = (),
        half: Callable[[Any, Any, Any], None] | None = None,
        tabulated: bool = False,
    ) -> None:
        self.name = name
        self.cuda = cuda
        self.numpy = numpy
        self.rule = rule
        self.typed = typed
        self.masks = masks
        self.numbers = numbers
        self.check = check
        self.wide_integers = wide_integers
        self.categories = frozenset(categories)
        self.include = include
        self.options = options
        self.row_major = row_major
        self.stored = stored
        self.half = half
        self.tabulated = tabulated
        self._tables: dict[Any, Any] = {}
        #: ``None`` for an operation that has no derivatives.
        self.formula: BackwardFormula | None = (
            BackwardFormula(node or node_name(name), tuple(_LETTERS), derivatives) if derivatives else None
        )

    def __repr__(self) -> str:
        return f"<Pointwise {self.name}>"

    def shown_as(self, node: str | Callable[..., str]) -> Pointwise:
        """The same operation whose nodes have another name."""
        result = copy(self)
        result.formula = None if self.formula is None else self.formula.named(node)
        return result

    # Calling

    def unary(self, a: Tensor) -> Tensor:
        """The result for one operand."""
        try:
            layout = a._layout
        except AttributeError:
            raise self._no_tensor(a) from None
        result: Tensor = layout.device_state.plans[self, None, layout](a)
        if a._autograd is not None and modes.recording and self.formula is not None:
            self.formula.record((result,), (a,))
        return result

    def binary(self, a: Any, b: Any) -> Tensor:
        """The result for two operands, one of which may be a number."""
        of_tensors = isinstance(b, TensorBase)
        try:
            layout = a._layout
            run = layout.device_state.plans[self, None, layout, b._layout if of_tensors else type(b)]
        except (AttributeError, _Mixed, SparseOperandError):
            run = None
        if run is None:
            return self(a, b)
        result: Tensor = run(a, b)
        state = a._autograd
        if of_tensors:
            other = b._autograd
            if (state is not None or other is not None) and modes.recording and self.formula is not None:
                requires_grad_a = state is not None and state.requires_grad
                requires_grad_b = other is not None and other.requires_grad
                if requires_grad_a or requires_grad_b:
                    self.formula.record_binary(result, a, b, (requires_grad_a, requires_grad_b))
        elif state is not None and state.requires_grad and modes.recording and self.formula is not None:
            self.formula.record_binary(result, a, b, (True, None))
        return result

    def __call__(self, *operands: Any) -> Tensor:
        """The result for any operands, at least one of which is a tensor."""
        signature = self._signature(operands)
        device_state = self._device_state_of(operands)
        try:
            run = device_state.plans[self, None, *signature]
        except SparseOperandError:
            return on_sparse(self.name, *operands)  # type: ignore[no-any-return]
        except _Mixed:
            operands = self._on_one_device(operands)
            signature = self._signature(operands)
            run = self._device_state_of(operands).plans[self, None, *signature]
        result: Tensor = run(*operands)
        if modes.recording and self.formula is not None:
            self.formula.record((result,), operands)
        return result

    def in_place(self, *operands: Any) -> Tensor:
        """The result written to the first operand.

        Raises
        ------
        RuntimeError
            If the result has another shape, or a type that does not convert to the operand's.
        """
        out = operands[0]
        if not isinstance(out, TensorBase):
            raise self._no_tensor(out)
        check_in_place(out)
        if len(operands) == 2 and out._autograd is None:
            # The common case, without a second look at what does not matter to it.
            other, layout = operands[1], out._layout
            if isinstance(other, TensorBase):
                if (
                    other._autograd is None
                    and other._layout.device_state is layout.device_state
                    and other._storage is not out._storage
                ):
                    layout.device_state.plans[self, layout, layout, other._layout](out, out, other)
                    out._storage.version += 1
                    return out
            elif type(other) in _NUMBERS:
                layout.device_state.plans[self, layout, layout, type(other)](out, out, other)
                out._storage.version += 1
                return out
        formula = self.formula
        mask = None
        if formula is not None and out._layout.dtype.category >= Category.FLOATING:
            mask = mask_of(operands)
        if formula is None or mask is None:
            self._write(out, operands)
            return out
        # A derivative that needs the former value gets a copy of it, with its history for second derivatives.
        form = formula.forms.get(mask) or formula.form(mask, operands)
        former = out.clone() if 0 in form.saved_positions else out
        node: OperationNode = formula.node(mask, (former, *operands[1:]))
        self._write(out, operands)
        if -1 in form.saved_positions:
            node.keep_output(out)
        attach_in_place(node, operands, out)
        return out

    def out(self, out: Tensor | None, *operands: Any) -> Tensor:
        """The result written to ``out``, which takes its shape; a new tensor where that is ``None``.

        With :data:`IN_PLACE` it is written to the first operand.
        """
        if out is None:
            return self(*operands)
        if out is IN_PLACE:
            return self.in_place(*operands)
        if not isinstance(out, TensorBase):
            raise TypeError(f"{self.name}(): argument 'out' must be Tensor, not {type(out).__name__}")
        operands = self._on_one_device(operands)
        tensors = [x for x in operands if isinstance(x, TensorBase)]
        if modes.recording and any(x.requires_grad for x in (out, *tensors)):
            raise RuntimeError(
                f"{self.name}(): functions with out=... arguments don't support automatic differentiation, but one "
                "of the arguments requires grad."
            )
        shape = strides_of.broadcast_shapes(*[x._layout.shape for x in tensors])
        if out._layout.shape != shape:
            if any(x is out for x in tensors):
                raise RuntimeError(
                    f"{self.name}(): output with shape {list(out._layout.shape)} doesn't match the broadcast shape "
                    f"{list(shape)}, and is an operand, which must not be resized: give another tensor as out"
                )
            shaped(out, shape)
        self._write(out, operands)
        return out

    def _write(self, out: Tensor, operands: tuple[Any, ...]) -> None:
        layout, storage = out._layout, out._storage
        try:
            run = layout.device_state.plans[self, layout, *self._signature(operands)]
        except (_Mixed, SparseOperandError):
            run = None
        if run is None:
            operands = self._on_one_device(operands, out)
            run = layout.device_state.plans[self, layout, *self._signature(operands)]
        for x in operands:
            if isinstance(x, TensorBase) and x._storage is storage and x is not out:
                check_partial_overlap(out, x, self.name)
        run(out, *operands)
        storage.version += 1

    @staticmethod
    def _signature(operands: Sequence[Any]) -> list[Layout | type]:
        """What a plan depends on: layouts of tensors, and classes of numbers."""
        return [x._layout if isinstance(x, TensorBase) else type(x) for x in operands]

    def _device_state_of(self, operands: Sequence[Any]) -> Any:
        for x in operands:
            if isinstance(x, TensorBase):
                return x._layout.device_state
        raise self._no_tensor(operands[0])

    def _no_tensor(self, argument: Any) -> TypeError:
        return TypeError(
            f"{self.name}(): argument 'input' (position 1) must be Tensor, not {type(argument).__name__}"
        )

    def _on_one_device(self, operands: Sequence[Any], out: Tensor | None = None) -> tuple[Any, ...]:
        """Operands as plans take them: 0-dim CPU tensors beside CUDA ones moved there, NumPy scalars as numbers."""
        target = None if out is None else out._layout.device_state
        for x in operands:
            if isinstance(x, TensorBase):
                device_state = x._layout.device_state
                if target is None or (device_state.is_cuda and not target.is_cuda and out is None):
                    target = device_state
        result = []
        for position, x in enumerate(operands):
            if isinstance(x, TensorBase):
                layout = x._layout
                if layout.device_state is not target:
                    layout.device_state.check_alive()
                    if layout.shape or layout.device_state.is_cuda:
                        raise RuntimeError(
                            f"{self.name}(): Expected all tensors to be on the same device, but found at least two "
                            f"devices, {target.device if target else None} and {layout.device}!"
                        )
                    x = x.to(target.device)  # type: ignore[union-attr]
            elif type(x) not in _NUMBERS:
                x = self._number(x, position)
            result.append(x)
        return tuple(result)

    def _number(self, x: Any, position: int) -> Any:
        """What Python has as a number for ``x``: a member of an ``IntEnum``, or a scalar of NumPy."""
        if isinstance(x, (int, float, complex)):
            return int(x) if isinstance(x, int) else float(x) if isinstance(x, float) else complex(x)
        item = getattr(x, "item", None)
        if item is None or isinstance(x, np.ndarray):
            raise TypeError(
                f"{self.name}(): argument {position + 1} must be a Tensor or a number, not {type(x).__name__}"
            )
        return item()

    # Planning

    def plan(self, target: Layout | None, *signature: Layout | type) -> Callable[..., Any]:
        """What carries the operation out on operands of given layouts (or classes, for numbers).

        Returns
        -------
        callable
            ``run(*operands)`` gives a new tensor; with a ``target``, ``run(out, *operands)`` writes.
        """
        tensors = [operand for operand in signature if not isinstance(operand, type)]
        states = {layout.device_state for layout in tensors} | ({target.device_state} if target else set())
        if len(states) != 1 or any(
            isinstance(operand, type) and operand not in _NUMBERS for operand in signature
        ):
            raise _Mixed
        (device_state,) = states
        for position, operand in enumerate(signature):
            if isinstance(operand, type) and _LETTERS[position] not in self.numbers:
                raise TypeError(
                    f"{self.name}(): argument {position + 1} must be Tensor, not {operand.__name__}; make it one with "
                    "tensor.tensor(...)"
                )
        compute, result = self.types(signature)
        shape = strides_of.broadcast_shapes(*[operand.shape for operand in tensors])
        if target is None:
            target_layout = result_layout(shape, result, tensors)
            if self.row_major:
                target_layout = target_layout.as_contiguous()
        else:
            check_target(self.name, target, shape, result)
            target_layout = target
        arguments = [
            operand
            if isinstance(operand, type)
            else operand.with_strides(
                shape, strides_of.broadcast_strides(operand.shape, operand.strides, shape)
            )
            for operand in signature
        ]
        if device_state.is_cuda:
            return self._cuda(target_layout, arguments, compute, result, fresh=target is None)
        run = self._host(target_layout, arguments, compute, result)
        return run if target is not None else _allocating(run, target_layout, arguments)

    def types(self, signature: Sequence[Layout | type]) -> tuple[dtype, dtype]:
        """Type to compute in, and type of the result.

        Raises
        ------
        RuntimeError
            If the operation makes no sense for the operands' dtypes.
        NotImplementedError
            If it is not there for the dtype that they are promoted to.
        """
        common = rules.promoted(tuple(signature[: self.typed]))
        if self.check is not None:
            self.check(signature, common)
        if common.category not in self.categories:
            argument = ", ".join(rules.describe(operand) for operand in signature)
            kinds_text = ", ".join(each.name.lower() for each in sorted(self.categories))
            raise NotImplementedError(
                f'"{self.name}" not implemented for {argument}: it takes {kinds_text} operands'
            )
        if self.wide_integers and int in signature and common.category is Category.INTEGER:
            if common.is_storage_only and common not in self.stored:
                raise not_implemented(self.name, common)
            common = uint64 if common is uint64 else int64
        compute, result = self.rule(common)
        if compute.is_storage_only and compute not in self.stored:
            raise not_implemented(self.name, compute)
        return compute, result

    def _cuda(
        self,
        target: Layout,
        signature: Sequence[Layout | type],
        compute: dtype,
        result: dtype,
        *,
        fresh: bool,
    ) -> Callable[..., Any]:
        """What launches the kernel; with ``fresh``, on a new tensor."""
        device_state: Any = target.device_state
        compute_dtype = rules.computes_in(compute)
        expression = self._expression(target, signature, compute_dtype, result)
        tensors = [position for position, operand in enumerate(signature) if not isinstance(operand, type)]
        numbers = [position for position, operand in enumerate(signature) if isinstance(operand, type)]
        launch = kernels.plan(
            device_state.native,
            expression,
            target.shape,
            (target.strides, target.dtype),
            *[(signature[position].strides, signature[position].dtype) for position in tensors],  # type: ignore[union-attr]
        )
        local = device_state.local
        convert = packed_number(compute_dtype)
        # What is asked for most often is launched where it is allocated, without the call of another function.
        if not numbers and len(tensors) == 1 and fresh:
            make = maker(target)

            def unary(a: Tensor) -> Tensor:
                stream = local.stream
                out = make(stream)
                launch(stream.handle, out._storage.address, a._storage.address + a._offset)
                return out

            return unary
        if not numbers and len(tensors) == 1:

            def run_unary(out: Tensor, a: Tensor) -> None:
                launch(
                    local.stream.handle, out._storage.address + out._offset, a._storage.address + a._offset
                )

            return run_unary
        if not numbers and len(tensors) == 2 and fresh:
            make = maker(target)

            def binary(a: Tensor, b: Tensor) -> Tensor:
                stream = local.stream
                out = make(stream)
                launch(
                    stream.handle,
                    out._storage.address,
                    a._storage.address + a._offset,
                    b._storage.address + b._offset,
                )
                return out

            return binary
        if not numbers and len(tensors) == 2:
            return lambda out, a, b: launch(
                local.stream.handle,
                out._storage.address + out._offset,
                a._storage.address + a._offset,
                b._storage.address + b._offset,
            )

        if not numbers and fresh:
            make = maker(target)

            def several(*operands: Tensor) -> Tensor:
                stream = local.stream
                out = make(stream)
                addresses = [x._storage.address + x._offset for x in operands]
                launch(stream.handle, out._storage.address, *addresses)
                return out

            return several

        if len(numbers) == 1 and len(tensors) == 1 and fresh:
            (first,), (second,) = tensors, numbers
            make = maker(target)

            def with_number(*operands: Any) -> Tensor:
                number, x, stream = convert(operands[second]), operands[first], local.stream
                out = make(stream)
                launch(stream.handle, out._storage.address, x._storage.address + x._offset, number)
                return out

            return with_number
        if len(numbers) == 1 and len(tensors) == 1:
            (first,), (second,) = tensors, numbers

            def run_with_number(out: Tensor, *operands: Any) -> None:
                x = operands[first]
                launch(
                    local.stream.handle,
                    out._storage.address + out._offset,
                    x._storage.address + x._offset,
                    convert(operands[second]),
                )

            return run_with_number

        def run(out: Tensor, *operands: Any) -> None:
            launch(
                local.stream.handle,
                out._storage.address + out._offset,
                *[operands[i]._storage.address + operands[i]._offset for i in tensors],
                *[convert(operands[i]) for i in numbers],
            )

        return _allocating(run, target, signature) if fresh else run

    def _expression(
        self, target: Layout, signature: Sequence[Layout | type], compute_dtype: dtype, result: dtype
    ) -> kernels.Expression:
        """What is computed for an element, in ``compute_dtype``, as CUDA C++."""
        scalars = tuple(
            (_LETTERS[position], rules.number_code(compute_dtype))
            for position, operand in enumerate(signature)
            if isinstance(operand, type)
        )
        return kernels.Expression(
            self.name,
            self.cuda if isinstance(self.cuda, str) else self.cuda(compute_dtype),
            scalars,
            compute=compute_dtype,
            # Of the output's own type is the same kernel for out= as without.
            result=None if result is target.dtype else result,
            include="complex_math.cuh" if compute_dtype.is_complex else self.include,
            options=self.options,
        )

    def _host(
        self, target: Layout, signature: Sequence[Layout | type], compute: dtype, result: dtype
    ) -> Callable[..., None]:
        run = self._numpy(target, signature, compute, result)
        if not host_loops.worth(target.numel) or not self._gains(target, signature, compute, result):
            return run
        compute_dtype = rules.computes_in(compute)
        tensors = [position for position, operand in enumerate(signature) if not isinstance(operand, type)]
        loop = kernels.plan_on_host(
            self._expression(target, signature, compute_dtype, result),
            target.shape,
            (target.strides, target.dtype),
            *[(signature[position].strides, signature[position].dtype) for position in tensors],  # type: ignore[union-attr]
        )
        if loop is None:
            return run
        numbers = [position for position, operand in enumerate(signature) if isinstance(operand, type)]
        return native_loops.on_tensors(loop, run, tensors, numbers, packed_number(compute_dtype))

    def _gains(
        self, target: Layout, signature: Sequence[Layout | type], compute: dtype, result: dtype
    ) -> bool:
        """Whether a native loop is quicker than NumPy: where that goes over its arrays more than once.

        Only for floating point: integers are NumPy's. What is written to does not matter, so that ``out=`` gives what a new
        tensor gives.
        """
        compute_dtype = rules.computes_in(compute)
        if compute_dtype.category is not Category.FLOATING or result.category is Category.INTEGER:
            return False
        if target.dtype.category is Category.INTEGER:
            return False
        converted = result is not compute_dtype or any(
            not isinstance(each, type) and each.dtype is not compute_dtype
            for each in signature[: len(signature) - self.masks]
        )
        return converted or not isinstance(self.numpy, np.ufunc)

    def _numpy(
        self, target: Layout, signature: Sequence[Layout | type], compute: dtype, result: dtype
    ) -> Callable[..., None]:
        compute_dtype = rules.computes_in(compute)
        function, element = self.numpy, compute_dtype.numpy
        is_ufunc = isinstance(function, np.ufunc)
        one_pass = function.nout == 1 if isinstance(function, np.ufunc) else hasattr(function, "one_pass")
        writes = one_pass or (not is_ufunc and takes_out(function))
        loop = {"casting": "unsafe"} if is_ufunc else {}
        masks = len(signature) - self.masks
        changed = [
            not isinstance(each, type) and each.dtype is not compute_dtype and position < masks
            for position, each in enumerate(signature)
        ]
        # An output of another type holds what the result's own type holds, which is less than what is computed in.
        rounded = result if result is not target.dtype else None
        rounding = host_conversion(compute_dtype, result)
        finish = host_conversion(rounded or compute_dtype, target.dtype)
        direct = one_pass and rounded is None
        # Of floating point, whatever a ufunc makes of other types.
        numbers_only = compute_dtype.category is result.category is Category.FLOATING
        if function is np.negative and not target.dense:
            # NumPy's loops for float32 and int32 write wrong elements where an array with gaps is negated in place.
            direct = False

        def read(position: int, x: Any) -> Any:
            if not isinstance(x, TensorBase):
                return element.type(wrapped(x, compute_dtype))
            array = x._host
            return half_precision.converted(array, element) if changed[position] else array

        def write(into: Any, value: Any) -> None:
            if value.dtype == into.dtype and rounded is None:
                into[...] = value
                return
            if rounded is not None and value.dtype != rounded.numpy:
                held = np.empty(value.shape, rounded.numpy)
                rounding(held, value)
                value = held
            finish(into, value)

        # One step needs fewer arrays in the cache at once, and what is converted is to lie in scratch memory.
        size = min(_BLOCK << 2 * is_ufunc, BLOCK // element.itemsize)
        # Half precision is rounded without looking for a native loop for each block.
        round_half = None
        if rounded is None and compute_dtype is float32 and target.dtype in _HALVES:
            round_half = half_precision.block_to_float16 if target.dtype is float16 else _copied
        if float16 in (target.dtype, *[each.dtype for each in signature if not isinstance(each, type)]):
            size = _BLOCK

        def run_blocks(out: Tensor, *operands: Any) -> None:
            run_blocks_of(out._writable, *[x._host if isinstance(x, TensorBase) else x for x in operands])

        def run_blocks_of(target: Any, *operands: Any) -> None:
            into = target.reshape(-1)
            long = [isinstance(x, np.ndarray) for x in operands]
            values = [
                x.reshape(-1) if isinstance(x, np.ndarray) else element.type(wrapped(x, compute_dtype))
                for x in operands
            ]
            # Where what is computed is not what is written, or lies where operands do: one block for all results.
            result_room = None
            exact = rounded is None and into.dtype == element
            first = into[:size]
            if not is_ufunc and (
                not exact
                or any(
                    x.size and np.may_share_memory(into, x)
                    for x, is_long in zip(values, long, strict=True)
                    if is_long
                )
            ):
                result_room = scratch(first, element)
            # Memory that all blocks are converted to, as the system clears new memory for each.
            rooms = [
                scratch(first, element) if is_long and convert else None
                for is_long, convert in zip(long, changed, strict=True)
            ]
            if is_ufunc and numbers_only and not exact:
                result_room = next((room for room in rooms if room is not None), None)

            def part(x: Any, room: Any, block: slice) -> Any:
                if room is None:
                    return x[block]
                piece = x[block]
                converted = room[: piece.size]
                if piece.dtype == np.float16 and element == np.float32:
                    half_precision.block_from_float16(converted, piece)
                else:
                    converted[...] = piece
                return converted

            with np.errstate(all="ignore"):
                for start in range(0, into.size, size):
                    block = slice(start, start + size)
                    parts = [
                        part(x, room, block) if is_long else x
                        for x, is_long, room in zip(values, long, rooms, strict=True)
                    ]
                    piece = into[block]
                    if not writes or (is_ufunc and not exact and result_room is None):
                        write(piece, np.asarray(function(*parts)))
                    elif result_room is None:
                        function(*parts, out=piece, **loop)
                    else:
                        value = function(*parts, out=result_room[: piece.size], **loop)
                        if round_half is not None:
                            round_half(piece, value)
                        else:
                            write(piece, value)

        if rounded is None and compute_dtype is float32 and target.dtype in _HALVES:
            run_half = self._on_halves(target, signature, run_blocks_of)
            if run_half is not None:
                return run_half

        in_place = 0 if any(changed) else _row_in_place(target, signature)

        # Whole arrays of another type would come from memory, and go there, for each conversion.
        written = target.dtype is compute_dtype or target.dtype.category is Category.BOOL
        at_once = direct and written and not any(changed)
        if at_once and not in_place and not any(isinstance(each, type) for each in signature):

            def run_at_once(out: Tensor, *operands: Any) -> None:
                with np.errstate(all="ignore"):
                    function(*[x._host for x in operands], out=out._writable, **loop)

            return run_at_once
        if not at_once and target.numel > _BLOCK and _alike(target, signature):
            return run_blocks
        # Operands that lie in other ways are cut along the first dimension; 0 for those that are not.
        rows = 0
        if not at_once and target.numel > _BLOCK:
            rows = _BLOCK // (target.numel // target.shape[0])

        def run(out: Tensor, *operands: Any) -> None:
            into = out._writable
            with np.errstate(all="ignore"):
                if in_place:
                    use_rows_in_place(in_place)
                values = [read(position, x) for position, x in enumerate(operands)]
                if direct and (into.dtype == element or into.dtype == np.bool_):
                    function(*values, out=into, **loop)
                elif rows and not any(np.may_share_memory(into, value) for value in values):
                    for piece, parts in _in_rows(rows, into, values):
                        if writes and rounded is None and piece.dtype == element:
                            function(*parts, out=piece, **loop)
                        else:
                            write(piece, np.asarray(function(*parts)))
                else:
                    write(into, np.asarray(function(*values)))

        return run

    def _on_halves(
        self, target: Layout, signature: Sequence[Layout | type], compute: Callable[..., None]
    ) -> Callable[..., None] | None:
        """How an operation on one tensor of half precision goes without conversions; ``None`` where it does not.

        By the bits of elements; or, for many elements, by a table of the results for all of the 65,536 that there are, where looking
        them up costs less than conversions and steps. ``compute(into, array, *numbers)`` fills it.
        """
        tensors = [each for each in signature if not isinstance(each, type)]
        if len(tensors) != 1 or tensors[0].dtype not in _HALVES:
            return None
        if self.half is not None and len(signature) == 1 and tensors[0].dtype is target.dtype:
            on_bits, infinity = self.half, np.array(np.inf, target.dtype.numpy).view(np.uint16)
            alike = _alike(target, signature)

            def run_on_bits(out: Tensor, a: Tensor) -> None:
                source, into = a._host.view(np.uint16), out._writable.view(np.uint16)
                if not alike:
                    on_bits(source, infinity, into)
                    return
                source, into = source.reshape(-1), into.reshape(-1)
                for start in range(0, into.size, _BLOCK):
                    on_bits(source[start : start + _BLOCK], infinity, into[start : start + _BLOCK])

            return run_on_bits
        if target.numel < _TABULATED or not _alike(target, signature):
            return None
        if not (self.tabulated or tensors[0].dtype is float16):
            return None
        position, origin = signature.index(tensors[0]), tensors[0].dtype
        tables = self._tables

        def run(out: Tensor, *operands: Any) -> None:
            # Numbers as they are computed with: -0.0 is not 0.0.
            numbers = [x for i, x in enumerate(operands) if i != position]
            key = (origin, target.dtype, *[np.float32(wrapped(x, float32)).tobytes() for x in numbers])
            table = tables.get(key)
            if table is None:
                every = np.arange(1 << 16, dtype=np.uint16).view(origin.numpy)
                table = np.empty(1 << 16, target.dtype.numpy)
                compute(table, *[every if i == position else x for i, x in enumerate(operands)])
                if len(tables) >= _TABLES:
                    tables.clear()
                tables[key] = table = table.view(np.uint16)
            source = operands[position]._host.reshape(-1).view(np.uint16)
            into = out._writable.reshape(-1).view(np.uint16)
            for start in range(0, into.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                # All are inside of the table; the mode spares a copy of the block.
                table.take(source[block], out=into[block], mode="clip")

        return run


def one_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a NumPy form that goes over its arrays once, as a ufunc does: it is not called for block after block.

    It takes an ``out``, which may be an operand.
    """
    function.one_pass = True  # type: ignore[attr-defined]
    return function


def written(result: Any, out: Any) -> Any:
    """``result``, in ``out`` if there is one."""
    if out is None:
        return result
    np.copyto(out, result, casting="unsafe")
    return out


def takes_out(function: Callable[..., Any]) -> bool:
    """Whether a NumPy form writes its result to an ``out``."""
    try:
        return "out" in inspect.signature(function).parameters
    except ValueError:
        # A function of NumPy in C, which does not say.
        return False


def _copied(target: Any, source: Any) -> None:
    np.copyto(target, source, casting="unsafe")


class _Mixed(Exception):  # noqa: N818 - never leaves this module
    """Operands are on several devices, or are numbers of foreign classes."""


def _alike(target: Layout, signature: Sequence[Layout | type]) -> bool:
    """Whether tensors of these layouts lie row by row as ``target`` does."""
    return target.contiguous and all(
        isinstance(operand, type) or (operand.contiguous and operand.shape == target.shape)
        for operand in signature
    )


def _in_rows(rows: int, into: Any, values: Sequence[Any]) -> Iterator[tuple[Any, list[Any]]]:
    """``into`` and operands, numbers among them, some rows at a time."""
    stretched = [np.broadcast_to(x, into.shape) if np.ndim(x) else x for x in values]
    for start in range(0, len(into), rows):
        block = slice(start, start + rows)
        yield into[block], [x[block] if np.ndim(x) else x for x in stretched]


def _row_in_place(target: Layout, signature: Sequence[Layout | type]) -> int:
    """Elements that all operands go over in equal steps, where they do not lie as ``target`` does; 0 for few elements in all."""
    if target.numel < _MANY or not target.contiguous or _alike(target, signature):
        return 0
    steps = [
        strides_of.broadcast_strides(operand.shape, operand.strides, target.shape)
        for operand in signature
        if not isinstance(operand, type)
    ]
    return strides_of.collapse(target.shape, target.strides, *steps)[0][-1]


def _allocating(run: Callable[..., None], layout: Layout, signature: Sequence[Any]) -> Callable[..., Tensor]:
    """``run`` on a new tensor of ``layout``."""
    make = maker(layout)
    if len(signature) == 1:

        def unary(a: Tensor) -> Tensor:
            out = make()
            run(out, a)
            return out

        return unary
    if len(signature) == 2:

        def binary(a: Any, b: Any) -> Tensor:
            out = make()
            run(out, a, b)
            return out

        return binary

    def call(*operands: Any) -> Tensor:
        out = make()
        run(out, *operands)
        return out

    return call


def by_category(
    real: str, *, integer: str = "", boolean: str = "", complex: str = ""
) -> Callable[[dtype], str]:
    """CUDA expressions by the category of the compute dtype.

    Where none is given, complex numbers have that of real ones, integers too, and bools that of integers.
    """
    result = {
        Category.BOOL: boolean or integer or real,
        Category.INTEGER: integer or real,
        Category.FLOATING: real,
        Category.COMPLEX: complex or real,
    }
    return lambda dtype: result[dtype.category]
