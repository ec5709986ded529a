"""On which device a module wants its inputs, and moving them there."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import tensor
from nn.utils.rnn import PackedSequence
from tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def devices_of(
    device_ids: Sequence[Any] | None, output_device: Any, parameters: dict[str, Tensor]
) -> tuple[list[tensor.device] | None, tensor.device | None]:
    """The device of the module's inputs and of its outputs, checked."""
    devices = {each.device for each in parameters.values()}
    ids = list(device_ids or ())
    if len(ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if len(devices) > 1 or next(iter(devices)).type == "cpu":
        if ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/multiple-device "
                f"GPU modules or CPU modules, but got device_ids {device_ids}, output_device {output_device}, and module "
                f"parameters {devices}."
            )
        return None, None
    if not ids:
        return None, None if output_device is None else _device(output_device)
    expected = _device(ids[0])
    for name, each in parameters.items():
        if each.device != expected:
            raise ValueError(
                f"DistributedDataParallel expects the module on device_ids[0], {expected}, but its parameter '{name}' is on "
                f"{each.device}: move the module there first"
            )
    return [expected], expected if output_device is None else _device(output_device)


def _device(argument: Any) -> tensor.device:
    device = tensor.device(argument)
    if device.type == "cuda" and device.index is None:
        return tensor.device("cuda", tensor.cuda.current_device())
    return device


def moved(value: Any, device: tensor.device) -> Any:
    """``value`` with the tensors in tuples, lists, dicts and dataclasses inside each other on ``device``."""
    if isinstance(value, (Tensor, PackedSequence)):
        return value.to(device)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(each, device) for each in value))
    if isinstance(value, (tuple, list)):
        return type(value)([moved(each, device) for each in value])
    if isinstance(value, dict):
        return type(value)((key, moved(each, device)) for key, each in value.items())
    if is_dataclass(value) and not isinstance(value, type):
        changed = {each.name: moved(getattr(value, each.name), device) for each in fields(value) if each.init}
        return replace(value, **changed)
    return value
