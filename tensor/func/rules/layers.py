"""Convolutions, pooling, resampling and normalizations: the batch is merged with the samples' own, or with channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensor.func.batched import BatchingError, mapped
from tensor.func.dispatch import rule

if TYPE_CHECKING:
    from tensor.func.dispatch import Call


def _spatial(name: str) -> int:
    """Number of spatial dimensions, which the names of operations end with, or have before an underscore."""
    return int(next(name[number - 1] for number in range(len(name), 0, -1) if name[number - 1] in "123"))


def merged(call: Call, rank: int, *names: str) -> Any:
    """Call with all samples of all batches in one batch; samples of ``rank`` dimensions have a batch of their own."""
    input = call[names[0]]
    changes: dict[str, Any] = {}
    for name in names:
        x = call.full(call[name])
        changes[name] = x.flatten(0, 1) if input.dim() == rank else x
    result = call.operation.call(call.arguments | changes)
    if input.dim() == rank:
        leading = (call.size, input.shape[0])
        result = mapped(lambda x: x.reshape(*leading, *x.shape[1:]), result)
    return call.wrap(result)


@rule("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d")
def convolution(call: Call) -> Any:
    """With weights for each sample, the samples are groups of channels."""
    input, weight, bias = call["input"], call["weight"], call.get("bias")
    spatial = _spatial(call.operation.name)
    if not call.is_batched(weight) and not call.is_batched(bias):
        return merged(call, spatial + 2, "input")
    own_batch = input.dim() == spatial + 2
    size, groups = call.size, call.get("groups", 1)
    if call.is_batched(weight):
        x = call.full(input)
        # (batch, N, C, ...) as (N, batch * C, ...)
        x = x.transpose(0, 1) if own_batch else x.unsqueeze(0)
        whole = call.operation.call(
            call.arguments
            | {
                "input": x.flatten(1, 2),
                "weight": weight.value.flatten(0, 1),
                "bias": None,
                "groups": groups * size,
            }
        )
        whole = whole.reshape(whole.shape[0], size, -1, *whole.shape[2:]).transpose(0, 1)
        result = whole if own_batch else whole.squeeze(1)
    else:
        plain = merged_without_bias(call, spatial)
        result = plain
    if bias is not None:
        shape = (*[1] * own_batch, -1, *[1] * spatial)
        result = result + call.value(bias).reshape(*([size] if call.is_batched(bias) else [1]), *shape)
    return call.wrap(result)


def merged_without_bias(call: Call, spatial: int) -> Any:
    """All samples of a convolution whose bias alone differs between them."""
    saved = call.arguments
    call.arguments = saved | {"bias": None}
    try:
        return merged(call, spatial + 2, "input").value
    finally:
        call.arguments = saved


@rule(
    "pooling.max_pool1d pooling.max_pool2d pooling.max_pool3d pooling.avg_pool1d pooling.avg_pool2d pooling.avg_pool3d "
    "adaptive_pooling.adaptive_max_pool1d adaptive_pooling.adaptive_max_pool2d adaptive_pooling.adaptive_max_pool3d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d lp_pool1d lp_pool2d lp_pool3d"
)
def pool(call: Call) -> Any:
    """Windows of each channel."""
    return merged(call, _spatial(call.operation.name) + 2, "input")


@rule("max_unpool1d max_unpool2d max_unpool3d")
def unpool(call: Call) -> Any:
    """The inverse of pooling."""
    if call.get("output_size") is not None:
        return NotImplemented
    return merged(call, _spatial(call.operation.name) + 2, "input", "indices")


@rule("interpolation.interpolate pixel_shuffle pixel_unshuffle channel_shuffle")
def resample(call: Call) -> Any:
    """Images with a batch of their own."""
    input = call["input"]
    return merged(call, input.dim(), "input") if input.dim() > 2 else NotImplemented


@rule("grid_sample")
def grid_sample(call: Call) -> Any:
    """Images with a batch of their own, and where to read them."""
    return merged(call, call["input"].dim(), "input", "grid")


@rule("affine_grid")
def affine_grid(call: Call) -> Any:
    """Grids with a batch of their own."""
    theta, size = call["theta"], tuple(call["size"])
    result = call.operation.call(
        call.arguments | {"theta": theta.value.flatten(0, 1), "size": (call.size * size[0], *size[1:])}
    )
    return call.wrap(result.reshape(call.size, size[0], *result.shape[1:]))


@rule("unfolding.unfold unfolding.fold")
def unfolded(call: Call) -> Any:
    """Blocks of images."""
    rank = 4 if call.operation.name == "unfold" else 3
    return merged(call, rank, "input")


@rule("padding.pad")
def pad(call: Call) -> Any:
    """Elements around samples."""
    input, padding = call["input"], call["pad"]
    if call.get("mode", "constant") == "constant":
        return call.run() if input.dim() else NotImplemented
    return merged(call, len(padding) // 2 + 2, "input")


def _affine(call: Call, result: Any, shape: tuple[int, ...]) -> Any:
    """All samples times ``weight`` plus ``bias``, which are of ``shape`` in a sample."""
    for name in ("weight", "bias"):
        factor = call.get(name)
        if factor is not None:
            each = call.value(factor).reshape((call.size if call.is_batched(factor) else 1, *shape))
            result = result * each if name == "weight" else result + each
    return result


@rule("normalization.layer_norm normalization.rms_norm")
def layer_norm(call: Call) -> Any:
    """Over the last dimensions."""
    if not any(call.is_batched(call.get(name)) for name in ("weight", "bias")):
        return call.run()
    arguments = call.arguments | {"input": call.full(call["input"]), "weight": None}
    if "bias" in arguments:
        arguments["bias"] = None
    result = call.operation.call(arguments)
    shape = tuple(call["weight"].shape if call.get("weight") is not None else call["bias"].shape)
    missing = call["input"].dim() - len(shape)
    return call.wrap(_affine(call, result, (*[1] * missing, *shape)))


@rule("normalization.group_norm")
def group_norm(call: Call) -> Any:
    """Over groups of channels."""
    if "num_groups" not in call.arguments:
        return NotImplemented
    input = call["input"]
    saved = call.arguments
    call.arguments = saved | {"weight": None, "bias": None}
    result = merged(call, input.dim(), "input").value
    call.arguments = saved
    shape = (1, input.shape[1], *[1] * (input.dim() - 2))
    return call.wrap(_affine(call, result, shape))


@rule("normalization.batch_norm normalization.instance_norm")
def batch_norm(call: Call) -> Any:
    """Over the samples' own batch (or each of its elements), with the batch as further channels."""
    input = call["input"]
    name = call.operation.name
    if input.dim() < 2:
        return NotImplemented
    mean, variance = call.get("running_mean"), call.get("running_var")
    trains = call.get("training", call.get("use_input_stats", name == "instance_norm"))
    if trains and any(x is not None and not call.is_batched(x) for x in (mean, variance)):
        if call.is_batched(input):
            raise BatchingError(
                f"vmap: {name} got a batched tensor as input while the running_mean or running_var, which will be updated "
                "in place, were not batched. Use func.replace_all_batch_norm_modules_, or eval()"
            )
        return NotImplemented
    channels = input.shape[1]
    x = call.full(input).transpose(0, 1).flatten(1, 2)

    def each(statistics: Any) -> Any:
        return None if statistics is None else call.full(statistics).reshape(-1)

    arguments = call.arguments | {"input": x, "weight": None, "bias": None}
    arguments |= {"running_mean": each(mean), "running_var": each(variance)}
    result = call.operation.call(arguments)
    result = result.reshape(input.shape[0], call.size, channels, *result.shape[2:]).transpose(0, 1)
    if trains:
        for statistics, flat in ((mean, arguments["running_mean"]), (variance, arguments["running_var"])):
            if statistics is not None:
                statistics.value.copy_(flat.reshape(call.size, channels))
    return call.wrap(_affine(call, result, (1, channels, *[1] * (input.dim() - 2))))


@rule("resampling.upsample_nearest resampling.upsample_bilinear")
def upsample(call: Call) -> Any:
    """Older names of interpolation."""
    return merged(call, call["input"].dim(), "input")
