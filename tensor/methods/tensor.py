"""``Tensor``: the class, whose methods are the functions of the families beside this file."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from graphroot.coexistence import own
from nvrtc_kernels import dtypes
from tensor.autograd.differentiation import backward
from tensor.autograd.recording import hooks, storage_views
from tensor.autograd.recording.inplace import become
from tensor.autograd.recording.node import edge_of
from tensor.autograd.recording.state import new_state
from tensor.core import memory_format as formats
from tensor.core.base import TensorBase, TensorFields, register, view_of
from tensor.core.modes.grad_mode import modes
from tensor.core.plans.steps import innermost, recorders
from tensor.core.warning import warn_caller
from tensor.operations.creation import conversions, copies
from tensor.operations.creation.construction import of_old_class, tensor
from tensor.operations.creation.interchange import array_interfaces
from tensor.operations.creation.interchange import dlpack_exchange as interop
from tensor.operations.definition.call_forms import complete_methods
from tensor.operations.indexing import subscripts as indexing
from tensor.operations.pointwise import selection
from tensor.operations.shapes import views

from . import element_functions, notebook, pickling, printing
from .description import Description
from .operation_methods import OperationMethods
from .operators import Operators
from .overriding.interception import intercept, is_intercepted, overridden
from .overriding.protocol import overrides
from .sparse_methods import SparseMethods

if TYPE_CHECKING:
    from collections.abc import Iterator


class Tensor(Operators, Description, SparseMethods, OperationMethods, TensorFields):
    """A multi-dimensional array of elements of one type, on the CPU or a CUDA device.

    Make one with :func:`tensor.tensor`, :func:`tensor.zeros` and their like; ``Tensor(data)`` and
    ``Tensor(*sizes)`` are there for old scripts.
    """

    __slots__ = ()

    def __new__(cls, *data: Any, device: Any = None) -> Tensor:  # noqa: PYI034 - subclasses are shared memory
        """Tensor of the default dtype: of data, or of sizes with undefined contents."""
        result = of_old_class(data, device)
        if cls is Tensor:
            return result
        derived: Tensor = result.as_subclass(cls)
        return derived

    def as_subclass(self, cls: builtins.type[Any]) -> Any:
        """The elements as an object of ``cls``, a class derived from :class:`Tensor`; ``__init__`` is not called.

        Memory, graph and :attr:`grad` are shared with this tensor.

        Examples
        --------
        >>> class Weight(tensor.Tensor):
        ...     pass
        >>> type(tensor.zeros(2).as_subclass(Weight)).__name__
        'Weight'
        """
        if not is_intercepted() and overrides(cls):
            intercept()
        result = object.__new__(cls)
        result._storage, result._layout, result._offset = self._storage, self._layout, self._offset
        result._array, result._autograd, result._base = self._array, self._autograd, self._base
        return result

    @staticmethod
    def _make_subclass(cls: builtins.type[Any], data: Tensor, require_grad: builtins.bool = False) -> Any:
        """The elements of ``data``, without its graph, as an object of ``cls``, which requires grad if asked."""
        result = data.detach().as_subclass(cls)
        return result.requires_grad_() if require_grad else result

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call ``func``, and make the tensors that it returns objects of ``cls``: see :mod:`tensor.overrides`.

        A subclass that does something else with calls overrides this, and calls it for the rest.
        """
        return overridden(cls, func, types, args, kwargs)

    # The array API standard

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard for this array: :mod:`tensor.array_api`.

        Raises
        ------
        ValueError
            If ``api_version`` is none that it follows: 2021.12, 2022.12, 2023.12 or 2024.12.
        """
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(f"version {api_version!r} of the array API standard is not followed: 2024.12 is")
        # It stands above the class, and is loaded when somebody asks.
        return own("tensor.array_api")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The elements on ``device``, queued on ``stream``, a :class:`tensor.cuda.Stream`, or the current one.

        See :meth:`to`.
        """
        if stream is None:
            return self.to(device)
        with stream:
            return self.to(device)

    # Differentiation

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether operations on this tensor are recorded, so that backward passes compute its gradient.

        Assigning is :meth:`requires_grad_`.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True)
        >>> (x * 2).requires_grad, x.detach().requires_grad
        (True, False)
        """
        state = self._autograd
        return state is not None and state.requires_grad

    @requires_grad.setter
    def requires_grad(self, requires_grad: builtins.bool) -> None:
        self.requires_grad_(requires_grad)

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Set whether operations on this leaf are recorded to ``requires_grad``, in place. Returns the tensor.

        Raises
        ------
        RuntimeError
            If the dtype is neither floating nor complex, the tensor was made in inference mode, or ``False`` is asked
            of a tensor that is not a leaf.

        Examples
        --------
        >>> x = tensor.ones(2).requires_grad_()
        >>> x.sum().backward()
        >>> x.grad
        tensor([1., 1.])
        """
        state = self._autograd
        if requires_grad:
            dtype = self._layout.dtype
            if not (dtype.is_floating_point or dtype.is_complex):
                raise RuntimeError(
                    f"Only Tensors of floating point and complex dtype can require gradients, this one is {dtype!r}: "
                    "convert it first, as by float()"
                )
            if self._storage.version < 0 and not modes.inference:
                raise RuntimeError(
                    "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: make a "
                    "clone to get a normal tensor"
                )
            if state is None:
                state = self._autograd = new_state()
        elif state is None:
            return self
        elif state.edge is not None:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        state.requires_grad = builtins.bool(requires_grad)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have accumulated, or ``None``.

        Only leaves that require grad, and tensors on which :meth:`retain_grad` was called, get one. A UserWarning says so
        where another tensor's is read.

        Raises
        ------
        RuntimeError
            On assigning, if the gradient has another shape, dtype or device, or is the tensor itself.
        TypeError
            On assigning what is neither a tensor nor ``None``.

        Examples
        --------
        >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        state = self._autograd
        if state is None:
            return None
        grad: Tensor | None = state.grad
        if recorders and (recorder := innermost()) is not None:
            recorder.gradient_asked(self)
        if grad is None and state.edge is not None and not state.retains:
            warn_caller(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "
                "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
                "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by "
                "mistake, make sure you access the leaf Tensor instead."
            )
        return grad

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        if grad is not None:
            if not isinstance(grad, TensorBase):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got {builtins.type(grad).__name__}"
                )
            if grad._layout is not self._layout:
                self._check_grad(grad)
            if grad is self:
                raise RuntimeError("can't assign Variable as its own grad")
        if self._autograd is None:
            self._autograd = new_state()
        if recorders and (recorder := innermost()) is not None:
            recorder.gradient_asked(self)
        self._autograd.grad = grad

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_grad(self, grad: Tensor) -> None:
        for what, mine, argument in (
            ("shape", list(self.shape), list(grad.shape)),
            ("dtype", self.dtype, grad.dtype),
            ("device", self.device, grad.device),
        ):
            if mine != argument:
                raise RuntimeError(
                    f"assigned grad has {what} {argument}, expected {mine}, that of the tensor"
                )

    @property
    def grad_fn(self) -> Any:
        """The node of the recorded graph whose output this tensor is; ``None`` for a leaf.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True)
        >>> x.grad_fn is None, (x * 2).grad_fn.name()
        (True, 'MulBackward0')
        """
        state = self._autograd
        if state is None or state.edge is None:
            return None
        return edge_of(self)[0]

    @property
    def is_leaf(self) -> builtins.bool:
        """Whether no recorded operation computed this tensor.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self.grad_fn is None

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of this tensor to ``grad`` of the leaves that it was computed from.

        See :func:`tensor.autograd.backward`.

        Parameters
        ----------
        gradient : Tensor, optional
            Gradient of the result with respect to this tensor, of its shape; 1 by default, for a tensor with one
            element.
        retain_graph : bool, optional
            Whether the graph is kept for another pass; by default ``create_graph``.
        create_graph : bool
            Whether the pass is recorded, for higher derivatives.
        inputs : Tensor or sequence of Tensor, optional
            The only tensors whose gradients are added up; all leaves by default.

        Raises
        ------
        RuntimeError
            If this tensor does not require grad, has more than one element and there is no ``gradient``, or the graph
            was freed by an earlier pass.

        Examples
        --------
        >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).backward(tensor.tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 2., 40.])
        """
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    register_hook = hooks.register_hook
    register_post_accumulate_grad_hook = hooks.register_post_accumulate_grad_hook
    retain_grad = hooks.retain_grad

    @property
    def retains_grad(self) -> builtins.bool:
        """Whether :meth:`retain_grad` was called on a tensor that is not a leaf.

        >>> x = tensor.ones(2, requires_grad=True) * 2
        >>> x.retain_grad()
        >>> x.retains_grad
        True
        """
        state = self._autograd
        return state is not None and state.retains

    @property
    def output_nr(self) -> builtins.int:
        """Which output of its node (:attr:`grad_fn`) the tensor is, from 0; 0 for a leaf.

        >>> x = tensor.ones(2, 2, requires_grad=True)
        >>> [each.output_nr for each in tensor.linalg.qr(x)]
        [0, 1]
        """
        edge = edge_of(self)
        return 0 if edge is None or self.is_leaf else edge[1]

    def is_inference(self) -> builtins.bool:
        """Whether the tensor's memory was allocated in :class:`~tensor.inference_mode`.

        >>> with tensor.inference_mode():
        ...     x = tensor.ones(2)
        >>> x.is_inference()
        True
        """
        return self._storage.version < 0

    def detach(self) -> Tensor:
        """View of the same elements that does not require grad: no gradient flows through it.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True)
        >>> x.detach().requires_grad
        False
        """
        return view_of(self._storage, self._layout, self._offset)

    def detach_(self) -> Tensor:
        """Remove the tensor, in place, from the graph that computed it: it becomes a leaf that does not require grad.

        Raises
        ------
        RuntimeError
            If it is a view.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True) * 2
        >>> x.detach_().is_leaf
        True
        """
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place: use detach() instead, or detach the base")
        self._autograd = None
        return self

    @property
    def data(self) -> Tensor:
        """View of the same elements that does not require grad; :meth:`detach` is the usual way.

        Assigning a tensor makes this one show its elements, without a record.

        Raises
        ------
        TypeError
            On assigning what is not a tensor.
        RuntimeError
            On assigning a tensor of another than a floating or complex dtype, if this one requires grad.

        Examples
        --------
        >>> x = tensor.ones(2, requires_grad=True)
        >>> x.data = tensor.zeros(2)
        >>> x
        tensor([0., 0.], requires_grad=True)
        """
        return view_of(self._storage, self._layout, self._offset)

    @data.setter
    def data(self, new_data: Tensor) -> None:
        if not isinstance(new_data, TensorBase):
            raise TypeError(f"Variable data has to be a tensor, but got {builtins.type(new_data).__name__}")
        state = self._autograd
        if state is not None and state.requires_grad:
            dtype = new_data._layout.dtype
            if not (dtype.is_floating_point or dtype.is_complex):
                raise RuntimeError(
                    "data set to a tensor that requires gradients must be floating point or complex dtype, got "
                    f"{dtype!r}: convert it first, as by float()"
                )
            if new_data._layout is not self._layout:
                # A graph that is still there was recorded for other gradients.
                state.accumulator = None
        self._storage, self._layout, self._offset = new_data._storage, new_data._layout, new_data._offset
        self._array = None

    @property
    def _version(self) -> builtins.int:
        """How often the memory was written in place."""
        if self._storage.version < 0:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    # Other memory

    apply_ = element_functions.apply_
    map_ = element_functions.map_

    def contiguous(self, memory_format: formats.memory_format = formats.contiguous_format) -> Tensor:
        """The tensor itself if its elements lie without gaps in row-major order (or ``memory_format``), else a copy.

        Raises
        ------
        RuntimeError
            For ``preserve_format``.

        Examples
        --------
        >>> x = tensor.zeros(2, 3)
        >>> x.contiguous() is x, x.T.contiguous().stride()
        (True, (2, 1))
        """
        if memory_format is formats.contiguous_format:
            return copies.contiguous(self)
        if formats.format_of(memory_format, "contiguous").describes(self._layout):
            return self
        if memory_format is formats.preserve_format:
            raise RuntimeError("contiguous(): preserve_format is no order of dimensions; name one")
        return copies.copy_into_new(self, memory_format.layout(self._layout), name="CloneBackward0")

    def share_memory_(self) -> Tensor:
        """Move the memory to memory that processes share, with all that views it. Returns the tensor.

        Processes that get the tensor then, through ``tensor.multiprocessing`` or by a fork, and this one see each
        other's writes. Nothing changes for a tensor on a device.

        Raises
        ------
        RuntimeError
            If there is no shared memory left, or the memory is pinned.

        Examples
        --------
        >>> tensor.zeros(2).share_memory_().is_shared()
        True
        """
        self._storage.share_memory_()
        return self

    def new(self, *data: Any, device: Any = None) -> Tensor:
        """``Tensor(...)`` of this tensor's dtype, on its device: of sizes, or of a sequence of numbers.

        >>> tensor.zeros(1, dtype=tensor.int32).new([1, 2])
        tensor([1, 2], dtype=tensor.int32)

        Raises
        ------
        TypeError
            For other arguments.
        """
        return of_old_class(data, self.device if device is None else device, self.dtype)

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: dtypes.dtype | None = None,
        device: Any = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Tensor with a copy of ``data``, and the dtype and device of this one; see :func:`tensor.tensor`.

        Another ``dtype`` or ``device`` can be given by name, and ``requires_grad``. Gradients do not flow through the
        copy.

        Examples
        --------
        >>> tensor.zeros(1).new_tensor([1, 2])
        tensor([1., 2.])
        """
        where = self.device if device is None else device
        return tensor(
            data, dtype=self.dtype if dtype is None else dtype, device=where, requires_grad=requires_grad
        )

    # Views

    as_strided = storage_views.as_strided

    @property
    def T(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """View with the dimensions in reverse order; for a matrix, its transpose.

        Examples
        --------
        >>> tensor.tensor([[1, 2], [3, 4]]).T
        tensor([[1, 3],
                [2, 4]])
        """
        return views.reverse_dimensions(self)

    @property
    def mT(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """View of transposed matrices: the last two dimensions swapped.

        Raises
        ------
        RuntimeError
            If there are fewer than two dimensions.

        Examples
        --------
        >>> tensor.zeros(5, 2, 3).mT.shape
        tensor.Size([5, 3, 2])
        """
        return views.matrix_transpose(self)

    @property
    def H(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """Conjugate transpose of a matrix; a view if it is real.

        Raises
        ------
        RuntimeError
            If there are neither two dimensions nor none.

        Examples
        --------
        >>> tensor.tensor([[1.0, 2j]]).H
        tensor([[1.-0.j],
                [0.-2.j]])
        """
        if len(self._layout.shape) not in (0, 2):
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {len(self._layout.shape)}-D tensor. For "
                "batches of matrices, consider using tensor.mH"
            )
        return self.adjoint() if self._layout.shape else self.conj()

    @property
    def mH(self) -> Tensor:  # noqa: N802 - PyTorch's name
        """Conjugate transposes of matrices; the same as :meth:`adjoint`.

        Examples
        --------
        >>> tensor.zeros(5, 2, 3).mH.shape
        tensor.Size([5, 3, 2])
        """
        return self.adjoint()

    def adjoint(self) -> Tensor:
        """Conjugate transposes of matrices: the last two dimensions swapped; a view of a real tensor.

        Raises
        ------
        RuntimeError
            If there are fewer than two dimensions.

        Examples
        --------
        >>> tensor.tensor([[1.0, 2j]]).adjoint()
        tensor([[1.-0.j],
                [0.-2.j]])
        """
        return views.matrix_transpose(self).conj()

    @property
    def real(self) -> Tensor:
        """View of the real parts; the tensor itself if it is real. Assigning writes them.

        Examples
        --------
        >>> tensor.tensor([1 + 2j]).real
        tensor([1.])
        """
        return views.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        views.real(self).copy_(value)

    @property
    def imag(self) -> Tensor:
        """View of the imaginary parts of a complex tensor. Assigning writes them.

        Raises
        ------
        RuntimeError
            If the tensor is real.

        Examples
        --------
        >>> tensor.tensor([1 + 2j]).imag
        tensor([2.])
        """
        return views.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        views.imag(self).copy_(value)

    def _in_place(self, other: Tensor) -> Tensor:
        """Show what the view ``other`` shows."""
        become(self, other)
        return self

    def t_(self) -> Tensor:
        """:meth:`t` in place: the two dimensions are swapped, the elements stay. Returns the tensor.

        Examples
        --------
        >>> tensor.zeros(2, 3).t_().shape
        tensor.Size([3, 2])
        """
        return self._in_place(views.t(self))

    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """:meth:`transpose` in place: ``dim0`` and ``dim1`` are swapped, the elements stay. Returns the tensor.

        Raises
        ------
        IndexError
            If a dimension is out of range.

        Examples
        --------
        >>> tensor.zeros(2, 3).transpose_(0, 1).shape
        tensor.Size([3, 2])
        """
        return self._in_place(views.transpose(self, dim0, dim1))

    swapdims_ = transpose_

    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """:meth:`transpose` in place: ``axis0`` and ``axis1`` are swapped, the elements stay. Returns the tensor.

        Raises
        ------
        IndexError
            If a dimension is out of range.
        """
        return self._in_place(views.transpose(self, axis0, axis1))

    def squeeze_(self, dim: Any = None) -> Tensor:
        """:meth:`squeeze` in place: dimensions of size 1 go. Returns the tensor.

        Raises
        ------
        IndexError
            If ``dim`` is out of range.

        Examples
        --------
        >>> tensor.zeros(1, 3).squeeze_().shape
        tensor.Size([3])
        """
        return self._in_place(views.squeeze(self, dim))

    def unsqueeze_(self, dim: builtins.int) -> Tensor:
        """:meth:`unsqueeze` in place: a dimension of size 1 is inserted at ``dim``. Returns the tensor.

        Raises
        ------
        IndexError
            If ``dim`` is out of range.

        Examples
        --------
        >>> tensor.zeros(3).unsqueeze_(0).shape
        tensor.Size([1, 3])
        """
        return self._in_place(views.unsqueeze(self, dim))

    def as_strided_(self, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """:meth:`as_strided` in place: the tensor shows its storage with other sizes and strides. Returns the tensor.

        >>> tensor.arange(6).as_strided_((2, 2), (3, 1))
        tensor([[0, 1],
                [3, 4]])

        Parameters
        ----------
        size, stride, storage_offset
            See that method, as for the errors.
        """
        return self._in_place(storage_views.as_strided(self, size, stride, storage_offset))

    # Conversions

    bool = conversions.converter(dtypes.bool_, "bool")
    byte = conversions.converter(dtypes.uint8, "byte")
    char = conversions.converter(dtypes.int8, "char")
    short = conversions.converter(dtypes.int16, "short")
    int = conversions.converter(dtypes.int32, "int")
    long = conversions.converter(dtypes.int64, "long")
    half = conversions.converter(dtypes.float16, "half")
    bfloat16 = conversions.converter(dtypes.bfloat16, "bfloat16")
    float = conversions.converter(dtypes.float32, "float")
    double = conversions.converter(dtypes.float64, "double")
    cfloat = conversions.converter(dtypes.complex64, "cfloat")
    cdouble = conversions.converter(dtypes.complex128, "cdouble")

    # Memory shared with other libraries

    __dlpack__ = interop.dlpack
    __dlpack_device__ = interop.dlpack_device
    __cuda_array_interface__ = property(array_interfaces.cuda_array_interface)
    __array__ = array_interfaces.as_array
    __array_wrap__ = array_interfaces.wrap_array
    __array_priority__ = 1000

    __deepcopy__ = pickling.deepcopy
    __reduce_ex__ = pickling.reduce

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """Elements of this tensor where ``condition`` is true, else those of ``other``; see :func:`tensor.where`.

        Examples
        --------
        >>> x = tensor.tensor([-1.0, 2.0])
        >>> x.where(x > 0, 0.0)
        tensor([0., 2.])
        """
        return selection.where(condition, self, other)

    # What Python asks of a container and a number

    __getitem__ = indexing.get
    __setitem__ = indexing.put
    __bool__ = conversions.as_bool
    __index__ = conversions.as_index
    __hash__ = object.__hash__

    def __delitem__(self, key: Any) -> None:
        raise TypeError("Tensor does not support deleting items: select the others, or use tensor.cat")

    def __len__(self) -> builtins.int:
        if not self._layout.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._layout.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if builtins.type(self) is not Tensor and overrides(builtins.type(self)):
            return iter(self.unbind())
        return indexing.iterate(self)

    __contains__ = conversions.contains
    __int__ = conversions.as_int
    __float__ = conversions.as_float
    __complex__ = conversions.as_complex
    __format__ = conversions.formatted

    def _repr_html_(self) -> str:
        return notebook.html_of(self)

    #: What the text of a tensor begins with; that of a class that a program derives begins with its name.
    _text_name: str

    def __repr__(self) -> str:
        cls = builtins.type(self)
        text = printing.text_of(self, "tensor" if cls is Tensor else getattr(cls, "_text_name", cls.__name__))
        # Of a class of its own, as PyTorch marks and shows them.
        return f"Parameter({text})" if cls is not Tensor and getattr(self, "_is_param", False) else text


complete_methods(Tensor)
register(Tensor)
