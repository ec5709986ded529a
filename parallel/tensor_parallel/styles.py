"""How a plan divides a module: ``ColwiseParallel``, ``RowwiseParallel``, ``SequenceParallel``, and what goes in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from nn import Linear
from parallel.sharding.dtensor import DTensor, distribute_tensor
from parallel.sharding.placements import Placement, Replicate, Shard

from .layers import (
    check_divisible,
    divide,
    embedding,
    from_distributed,
    linear,
    replace_parameters,
    to_distributed,
    with_summed_parameters,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn import Module
    from parallel.device_mesh import DeviceMesh

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """How a module is divided; :func:`parallel.tensor.parallel.parallelize_module` applies it.

    Base class of the styles, whose ``_apply(module, device_mesh)`` returns the divided module.
    """

    #: Whose values count where parameters are divided: see :func:`parallel.tensor.distribute_tensor`.
    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...


class _Layer(ParallelStyle):
    """A layer that is divided, with how its input and output lie."""

    def __init__(self, input_layout: Placement, output_layout: Placement, use_local_output: bool) -> None:
        self.input_layouts = (_checked(self, "input_layouts", input_layout),)
        self.output_layouts = (_checked(self, "output_layouts", output_layout),)
        self.use_local_output = use_local_output

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )

    def _divide(
        self,
        module: Module,
        mesh: DeviceMesh,
        placement_of: Callable[[str], Placement],
        input_layout: Placement,
    ) -> Module:
        check_divisible(type(self).__name__, module)
        replace_parameters(
            module,
            lambda name, parameter: distribute_tensor(
                parameter, mesh, [placement_of(name)], src_data_rank=self.src_data_rank
            ),
        )
        compute = linear if isinstance(module, Linear) else embedding
        layout, output_layout, local = self.input_layouts[0], self.output_layouts[0], self.use_local_output

        def forward(module: Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            (x,) = args or kwargs.values()
            output = compute(module, to_distributed(x, mesh, layout, input_layout), output_layout)
            return from_distributed(output, output_layout, local)

        divide(module, forward)
        return module


class ColwiseParallel(_Layer):
    """Divides a ``nn.Linear`` or ``nn.Embedding`` so that each rank computes columns of its output.

    The weight of a linear layer is placed as ``Shard(0)``, that of an embedding as ``Shard(1)``.

    >>> parallel.tensor.parallel.ColwiseParallel()
    ColwiseParallel(input_layouts=(Replicate(),), output_layouts=(Shard(dim=-1),), use_local_output=True)

    Parameters
    ----------
    input_layouts : Placement, optional
        How the input lies, unless it is a DTensor; ``Replicate()`` by default.
    output_layouts : Placement, optional
        How the output is to lie; ``Shard(-1)`` by default.
    use_local_output : bool
        Whether the output is this rank's part, a plain tensor, rather than a DTensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        weights = Shard(0) if isinstance(module, Linear) else Shard(1)
        return self._divide(module, device_mesh, lambda _: weights, Replicate())


class RowwiseParallel(_Layer):
    """Divides a ``nn.Linear`` or ``nn.Embedding`` so that each rank computes a term of its output, which are added up.

    The weight of a linear layer is placed as ``Shard(1)``, and its bias replicated; that of an embedding as ``Shard(0)``.

    >>> parallel.tensor.parallel.RowwiseParallel()
    RowwiseParallel(input_layouts=(Shard(dim=-1),), output_layouts=(Replicate(),), use_local_output=True)

    Parameters
    ----------
    input_layouts : Placement, optional
        How the input lies, unless it is a DTensor; ``Shard(-1)`` by default. An embedding's is ``Replicate()``.
    output_layouts : Placement, optional
        How the output is to lie; ``Replicate()`` by default.
    use_local_output : bool
        Whether the output is this rank's part, a plain tensor, rather than a DTensor.
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if isinstance(module, Linear):
            return self._divide(
                module, device_mesh, lambda name: Shard(1) if name == "weight" else Replicate(), Shard(-1)
            )
        return self._divide(module, device_mesh, lambda _: Shard(0), Replicate())


class SequenceParallel(ParallelStyle):
    """Has each rank compute a part of a sequence: for ``nn.LayerNorm``, ``nn.RMSNorm``, ``nn.Dropout`` and such modules.

    Parameters are replicated, and their gradients added up over the ranks.

    >>> parallel.tensor.parallel.SequenceParallel()
    SequenceParallel(sequence_dim=1, use_local_output=False)

    Parameters
    ----------
    sequence_dim : int
        The dimension of the input along which it is divided. A plain tensor is taken to be this rank's part.
    use_local_output : bool
        Whether the output is this rank's part, a plain tensor, rather than a DTensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def __repr__(self) -> str:
        return (
            f"SequenceParallel(sequence_dim={self.sequence_sharding[0].dim}, "
            f"use_local_output={self.use_local_output})"
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        for each in module.modules():
            replace_parameters(
                each,
                lambda name, parameter: distribute_tensor(
                    parameter, device_mesh, [Replicate()], src_data_rank=self.src_data_rank
                ),
            )
        layout, local = self.sequence_sharding[0], self.use_local_output

        def forward(module: Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            (x,) = args or kwargs.values()
            x = to_distributed(x, device_mesh, layout, layout)
            output = with_summed_parameters(module, original, x.to_local())
            return output if local else DTensor.from_local(output, device_mesh, [layout], shape=x.shape)

        divide(module, forward)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Places the inputs of a module, and its outputs, as the modules in it and behind it need them.

    Parameters
    ----------
    input_layouts : Placement or tuple of Placement or None, optional
        How plain tensors among the positional arguments lie; None leaves an argument alone.
    desired_input_layouts : Placement or tuple of Placement or None, optional
        How the module is to get them; as many.
    input_kwarg_layouts, desired_input_kwarg_layouts : dict of str to Placement, optional
        The same for keyword arguments.
    use_local_input : bool
        Whether the module gets its rank's parts, plain tensors, rather than DTensors.
    output_layouts, desired_output_layouts : Placement or tuple of Placement or None
        How outputs lie, and how they are to lie.
    use_local_output : bool
        Whether outputs are this rank's parts rather than DTensors.

    Raises
    ------
    AssertionError
        If layouts and desired ones are not as many, or have other names.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


class PrepareModuleInput(ParallelStyle):
    """Places the inputs of a module as the modules in it need them.

    Parameters
    ----------
    input_layouts : Placement or tuple of Placement or None, optional
        How plain tensors among the positional arguments lie; None leaves an argument alone.
    desired_input_layouts : Placement or tuple of Placement or None, optional
        How the module is to get them; as many.
    input_kwarg_layouts, desired_input_kwarg_layouts : dict of str to Placement, optional
        The same for keyword arguments.
    use_local_output : bool
        Whether the module gets its rank's parts, plain tensors, rather than DTensors.

    Raises
    ------
    AssertionError
        If layouts and desired ones are not as many, or have other names.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _several(input_layouts)
        self.desired_input_layouts = _several(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        _check_same_number(
            "input_layouts", self.input_layouts, "desired_input_layouts", self.desired_input_layouts
        )
        _check_same_number(
            "input_kwarg_layouts",
            self.input_kwarg_layouts,
            "desired_input_kwarg_layouts",
            self.desired_input_kwarg_layouts,
        )

    def __repr__(self) -> str:
        return (
            f"PrepareModuleInput(input_layouts={self.input_layouts}, desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}, use_local_output={self.use_local_output})"
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        layouts, desired, local = self.input_layouts, self.desired_input_layouts, self.use_local_output

        def before(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if layouts and len(args) != len(layouts):
                raise ValueError(
                    f"module inputs and input_layouts should have same length! {type(module).__name__} got {len(args)} positional "
                    f"arguments, and input_layouts has {len(layouts)}"
                )
            if layouts:
                pairs = zip(args, layouts, desired, strict=True)
                args = tuple(_converted(x, device_mesh, one, other, local) for x, one, other in pairs)
            kwargs = {
                name: _converted(
                    x,
                    device_mesh,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                    local,
                )
                for name, x in kwargs.items()
            }
            return args, kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Places the outputs of a module as those that use them need.

    Parameters
    ----------
    output_layouts : Placement or tuple of Placement or None
        How plain tensors among the outputs lie; None leaves an output alone.
    desired_output_layouts : Placement or tuple of Placement or None
        How they are to lie; as many.
    use_local_output : bool
        Whether outputs are this rank's parts, plain tensors, rather than DTensors.

    Raises
    ------
    AssertionError
        If layouts and desired ones are not as many.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _several(output_layouts)
        self.desired_output_layouts = _several(desired_output_layouts)
        self.use_local_output = use_local_output
        _check_same_number(
            "output_layouts", self.output_layouts, "desired_output_layouts", self.desired_output_layouts
        )

    def __repr__(self) -> str:
        return (
            f"PrepareModuleOutput(output_layouts={self.output_layouts}, "
            f"desired_output_layouts={self.desired_output_layouts}, use_local_output={self.use_local_output})"
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        layouts, desired = self.output_layouts, self.desired_output_layouts

        def after(module: Module, args: Any, output: Any) -> Any:
            outputs = output if isinstance(output, tuple) else (output,)
            if len(outputs) != len(layouts):
                raise ValueError(
                    f"module outputs and output_layouts should have same length! {type(module).__name__} returned {len(outputs)}, "
                    f"and output_layouts has {len(layouts)}"
                )
            result = tuple(
                _converted(x, device_mesh, one, other, self.use_local_output)
                for x, one, other in zip(outputs, layouts, desired, strict=True)
            )
            return result if isinstance(output, tuple) else result[0]

        module.register_forward_hook(after)
        return module


def _several(layouts: Any) -> tuple[Any, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def _check_same_number(name: str, one: Any, other_name: str, other: Any) -> None:
    if len(one) != len(other) or (isinstance(one, dict) and one.keys() != other.keys()):
        raise AssertionError(f"{name} and {other_name} should have same length! Got {one} and {other}")


def _checked(style: ParallelStyle, name: str, layout: Any) -> Placement:
    if not isinstance(layout, Placement):
        raise TypeError(
            f"{type(style).__name__}({name}=...) is Shard(dim), Replicate() or Partial(), got {layout!r}"
        )
    return layout


def _converted(x: Any, mesh: DeviceMesh, layout: Any, desired: Any, local: bool) -> Any:
    if layout is None and not isinstance(x, DTensor):
        return x
    result = x if desired is None else to_distributed(x, mesh, layout, desired)
    return result.to_local() if local and isinstance(result, DTensor) else result
