"""What layers compute of divided tensors: linear maps, embeddings, and layers whose parameters all ranks have.

A linear map whose weight is divided by its rows computes its columns of the output on each rank; one whose weight is divided by
its columns a term of the whole output, from the columns of the input that it needs. So a pair of them takes one reduction in
the forward pass and one in the backward pass (Shoeybi et al., "Megatron-LM", 2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor
from nn import Embedding, Linear, Module
from nn import functional as F
from parallel.sharding.dtensor import DTensor, ShardedParameter, wrapped
from parallel.sharding.placements import Partial, Shard, Sharding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nn import Parameter
    from parallel.device_mesh import DeviceMesh
    from parallel.sharding.placements import Placement
    from tensor import Tensor

#: Classes of divided modules, by those of the modules.
_classes: dict[type[Any], type[Any]] = {}


class DividedModule(Module):
    """What modules are whose parameters a plan has placed on a mesh, beside what they were."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes of this rank's part; see the style that the plan has for it."""
        return self.__dict__["_divided_forward"](self, super().forward, args, kwargs)


def divide(module: Module, forward: Callable[..., Any]) -> None:
    """Have ``module`` compute ``forward(module, its own forward, args, kwargs)``."""
    cls = type(module)
    result = _classes.get(cls)
    if result is None:
        result = _classes[cls] = type(
            cls.__name__,
            (DividedModule, cls),
            {"__module__": cls.__module__, "__qualname__": cls.__qualname__},
        )
    module.__class__ = result
    module.__dict__["_divided_forward"] = forward


def to_distributed(x: Any, mesh: DeviceMesh, layout: Placement, desired: Placement) -> DTensor:
    """``x``, a part that lies as ``layout`` says or a DTensor, as ``desired`` has it."""
    placed = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, [layout])
    return placed.redistribute(placements=[desired])


def from_distributed(x: Any, layout: Placement, use_local_output: bool) -> Any:
    """``x`` as ``layout`` has it, and only this rank's part if ``use_local_output``."""
    x = x.redistribute(placements=[layout])
    return x.to_local() if use_local_output else x


def linear(module: Any, x: DTensor, layout: Placement) -> DTensor:
    """The linear map of a module whose weight is divided, placed as ``layout`` says."""
    weight, bias = module.weight, module.bias
    shape = (*x.shape[:-1], weight.shape[0])
    if weight.placements[0].is_shard(0):
        local = F.linear(x.for_sums(), weight.to_local(), None if bias is None else bias.to_local())
        return _placed(local, x.device_mesh, shape, Shard(len(shape) - 1)).redistribute(placements=[layout])
    local = F.linear(x.to_local(), weight.to_local())
    output = _placed(local, x.device_mesh, shape, Partial()).redistribute(placements=[layout])
    if bias is None:
        return output
    return wrapped(output.to_local() + _bias_for(bias, output), output._sharding)


def _bias_for(bias: DTensor, output: DTensor) -> Tensor:
    """What this rank adds to its part of ``output``."""
    placement = output.placements[0]
    last = len(output.shape) - 1
    if placement.is_shard(last):
        return bias.redistribute(placements=[Shard(0)]).to_local()
    if placement.is_partial():
        # Added once.
        return bias.for_sums() * float(output.device_mesh.get_local_rank() == 0)
    return bias.for_sums() if placement.is_shard() else bias.to_local()


def embedding(module: Any, indices: DTensor, layout: Placement) -> DTensor:
    """The rows of a module's divided table, placed as ``layout`` says."""
    weight = module.weight
    options = {
        "norm_type": module.norm_type,
        "scale_grad_by_freq": module.scale_grad_by_freq,
        "sparse": module.sparse,
    }
    local_indices, table = indices.to_local(), weight.to_local()
    shape = (*indices.shape, weight.shape[1])
    if weight.placements[0].is_shard(1):
        local = F.embedding(local_indices, table, module.padding_idx, **options)
        return _placed(local, indices.device_mesh, shape, Shard(len(shape) - 1)).redistribute(
            placements=[layout]
        )
    start, count = weight._sharding.extent()[0]
    rows = local_indices - start
    is_here = (rows >= 0) & (rows < count)
    padding = module.padding_idx
    if padding is not None:
        padding = padding - start if start <= padding < start + count else None
    if count:
        local = F.embedding(rows.where(is_here, tensor.zeros_like(rows)), table, padding, **options)
        local = local * is_here.unsqueeze(-1)
    else:
        local = table.new_zeros(shape)
    return _placed(local, indices.device_mesh, shape, Partial()).redistribute(placements=[layout])


def with_summed_parameters(module: Any, forward: Callable[..., Any], x: Tensor) -> Tensor:
    """``forward(x)`` of this rank's part, where the gradients of the module's parameters are sums over the ranks'."""
    replaced = [
        (each, name, parameter)
        for each in module.modules()
        for name, parameter in each._parameters.items()
        if isinstance(parameter, DTensor)
    ]
    try:
        for each, name, parameter in replaced:
            each._parameters[name] = parameter.for_sums()
        return forward(x)  # type: ignore[no-any-return]
    finally:
        for each, name, parameter in replaced:
            each._parameters[name] = parameter


def _placed(local: Tensor, mesh: DeviceMesh, shape: Sequence[int], placement: Placement) -> DTensor:
    return wrapped(local, Sharding(mesh, tuple(shape), (placement,)))


def check_divisible(name: str, module: Module) -> None:
    """Check that a style knows how to divide a module.

    Raises
    ------
    NotImplementedError
        If it does not.
    """
    if not isinstance(module, (Linear, Embedding)):
        raise NotImplementedError(
            f"{name} currently only support nn.Linear and nn.Embedding! Got {type(module).__name__}: name the layers in it in the "
            "plan"
        )
    if isinstance(module, Embedding) and module.max_norm is not None:
        raise NotImplementedError(
            f"{name} cannot divide an Embedding with max_norm={module.max_norm}: norms of its rows would be those of parts"
        )


def replace_parameters(module: Module, place: Callable[[str, Parameter], DTensor]) -> None:
    """Replace the parameters of a module itself by placed ones.

    Raises
    ------
    ValueError
        If one is placed already.
    """
    for name, parameter in list(module._parameters.items()):
        if isinstance(parameter, DTensor):
            raise ValueError(
                f"parameter '{name}' of {type(module).__name__} is placed already, as {parameter.placements} on "
                f"{parameter.device_mesh!r}: a module takes one style, and before fully_shard()"
            )
    for name, parameter in list(module._parameters.items()):
        if parameter is not None:
            result: Any = place(name, parameter).as_subclass(ShardedParameter)
            result.requires_grad_(parameter.requires_grad)
            result.__dict__.update(parameter.__dict__)
            module._parameters[name] = result
