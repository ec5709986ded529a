"""``parallelize_module``: a plan that says by the names of modules how each is divided among the ranks of a mesh."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from nn import Module

from .styles import ParallelStyle

if TYPE_CHECKING:
    from parallel.device_mesh import DeviceMesh

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Any:
    """Divide layers of a module among the ranks of a mesh. All its ranks call this, with modules of equal shapes.

    Each rank keeps a part of the weights, computes with it, and exchanges activations with the others.

    >>> from parallel.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> mesh = parallel.init_device_mesh("cpu", (parallel.get_world_size(),))
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    >>> model[0].weight.placements, model[2].weight.placements
    ((Shard(dim=0),), (Shard(dim=1),))
    >>> model(tensor.ones(2, 4)).shape
    tensor.Size([2, 4])

    Parameters
    ----------
    module : Module
        The module, whose parameters are replaced.
    device_mesh : DeviceMesh
        Of one dimension: of a larger mesh a slice, such as ``mesh["tp"]``.
    parallelize_plan : ParallelStyle or dict of str to ParallelStyle, optional
        The style of the module itself; or the styles of those below it by their names, with ``*`` and ``?`` for what any has
        between two dots, and ``""`` for the module.
    src_data_rank : int, optional
        The rank whose parameters count; None takes each rank's own.

    Returns
    -------
    Module
        ``module`` itself.

    Raises
    ------
    ValueError
        Without a mesh, for one of several dimensions, and if a parameter is divided already.
    TypeError
        If ``module`` is none, or the plan is neither a style nor a dict.
    NotImplementedError
        If a style does not know how to divide a module.
    """
    if not isinstance(module, Module):
        raise TypeError(f"parallelize_module() takes a module, got {type(module).__name__}")
    if device_mesh is None:
        raise ValueError("parallelize_module() divides layers among the ranks of a mesh: pass device_mesh=")
    if device_mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module() takes a mesh of one dimension, got {device_mesh!r}: take a slice of it, as in mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module call "
            "will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        token, _, rest = path.partition(".")
        if not path:
            parallelize_module(module, device_mesh, style, src_data_rank=src_data_rank)
            continue
        matching = [child for name, child in module.named_children() if fnmatch(name, token)]
        if not matching:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{token}' in module "
                f"{type(module).__name__}, skipping this plan entry.",
                stacklevel=2,
            )
        for child in matching:
            parallelize_module(
                child, device_mesh, {rest: style} if rest else style, src_data_rank=src_data_rank
            )
    return module
