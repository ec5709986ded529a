"""``GradScaler``: scaled losses, and steps that are left out when gradients overflowed."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, overload

import drv
from drv.failures import called_by
from nvrtc_kernels.dtypes import float16, float32
from tensor.core.devices.device import device
from tensor.core.dtypes.limits import finfo
from tensor.core.memory_format import strided
from tensor.core.plans.steps import recorders, recording, repeated
from tensor.core.sparse import storage_of
from tensor.methods.tensor import Tensor
from tensor.operations.creation.factories import full
from tensor.operations.optimizers.numbers import Number
from tensor.operations.optimizers.steps import step, unscale

_READY, _UNSCALED, _STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Multiplies losses by a scale, so that gradients in half precision are not rounded to 0.

    ``scaler.scale(loss).backward()``, ``scaler.step(optimizer)``, ``scaler.update()``: the step divides gradients by
    the scale, and is left out if one is not finite. The scale falls then, and grows after a while without.

    It is a number of the host: a step reads back, once, whether gradients were finite, and nothing else waits. With an
    optimizer whose steps are counted on the device (``capturable=True``; for SGD, ``fused=True``) it is on the device from
    the first step on, nothing is read back, and a CUDA graph may have the whole of it.

    >>> model = nn.Linear(2, 1)
    >>> optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    >>> scaler = tensor.amp.GradScaler("cpu", init_scale=1024.0)
    >>> scaler.scale(model(tensor.ones(3, 2)).sum()).backward()
    >>> _ = scaler.step(optimizer)
    >>> scaler.update()
    >>> scaler.get_scale()
    1024.0

    Parameters
    ----------
    device : str
        Type of the device that is trained on.
    init_scale : float
        The first scale.
    growth_factor, backoff_factor : float
        What the scale is multiplied by to grow and to fall.
    growth_interval : int
        Steps without overflow before it grows.
    enabled : bool
        Whether anything is done; without, ``scale`` returns what it is given, and ``step`` calls the optimizer's.

    Raises
    ------
    ValueError
        If ``growth_factor`` is not more than 1, or ``backoff_factor`` not less.
    RuntimeError
        When it is pickled between a step and the next :meth:`update`.

    Warns
    -----
    UserWarning
        If ``device`` is ``"cuda"`` and there is none; nothing is done then.
    """

    #: What changes with each step, for what compiles functions.
    keeps_books: ClassVar[frozenset[str]] = frozenset(
        {
            "get_scale",
            "state_dict",
            "_scale",
            "_growth_tracker",
            "_on_device",
            "_stages",
            "_flags",
            "_overflows",
            "_tensors",
        }
    )

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        if enabled and device == "cuda" and not drv.is_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise ValueError(f"The growth factor must be > 1.0, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise ValueError(f"The backoff factor must be < 1.0, got {backoff_factor}")
        self._enabled = enabled
        self._scale = float(init_scale)
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        #: Steps without overflow since the scale was changed.
        self._growth_tracker = 0
        #: The scale and that number where they are on a device.
        self._on_device: tuple[Tensor, Tensor] | None = None
        self._forget()

    def _forget(self) -> None:
        """Begin an iteration: nothing is known of any optimizer."""
        #: By the optimizer's id: how far it is, and what its gradients' flags are, or are as a number.
        self._stages: dict[int, str] = {}
        self._flags: dict[int, list[Tensor]] = {}
        self._overflows: dict[int, bool] = {}
        #: The scale as a tensor of each device that losses are on.
        self._tensors: dict[device, Tensor] = {}

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: list[Tensor]) -> list[Tensor]: ...
    @overload
    def scale(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]: ...
    @overload
    def scale(self, outputs: Iterable[Tensor]) -> Iterable[Tensor]: ...

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a tensor or an iterable of tensors, times the scale. Lists and tuples stay what they are.

        Raises
        ------
        ValueError
            If ``outputs`` is neither a tensor nor an iterable of them.
        CaptureError
            In the capture of a CUDA graph, if the scale is a number of the host still.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._on_device is None and outputs.device not in self._tensors:
                _refuse_in_capture(outputs)
            return outputs * self._factor(str(outputs.device))
        if not isinstance(outputs, Iterable):
            raise ValueError(
                f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
            )
        scaled = map(self.scale, outputs)
        return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled

    @repeated
    def _factor(self, device_name: str) -> Tensor:
        """The scale as a tensor of float32, so that a loss in half precision does not overflow."""
        target = device(device_name)
        factor = self._tensors.get(target)
        if factor is None:
            if self._on_device is None:
                factor = full((), self._scale, dtype=float32, device=target)
            else:
                factor = self._on_device[0].to(target)
            self._tensors[target] = factor
        return factor

    @repeated
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the parameters of ``optimizer`` by the scale in place, to clip them for example.

        Raises
        ------
        RuntimeError
            If this was done, or a step, since the last :meth:`update`.
        CaptureError
            In the capture of a CUDA graph, if the scale is a number of the host still.
        ValueError
            If a gradient is float16: it would be rounded to 0. Parameters of mixed precision are float32.
        """
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), _READY)
        if stage == _UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage == _STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        grads: list[Any] = [
            each.grad if each.grad.layout is strided else storage_of(each.grad).values
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None
        ]
        # Of a layer above: gradients of which each rank has a part. All ranks step, or none does.
        divided: list[Any] = [each for each in grads if hasattr(type(each), "any_over_ranks")]
        if divided:
            grads = [each.to_local() if hasattr(type(each), "any_over_ranks") else each for each in grads]
        for grad in grads:
            if grad.dtype is float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
        if self._on_device is None and grads and _steps_on_device(optimizer):
            _refuse_in_capture(grads[0])
            self._go_on_device(grads[0].device)
        if self._on_device is not None and all(each.is_cuda for each in grads):
            flags = unscale(grads, 1.0 / Number.of(self._on_device[0]))
        else:
            flags = unscale(grads, 1.0 / self.get_scale())
        if divided:
            flags = type(divided[0]).any_over_ranks(divided, flags)
        self._flags[id(optimizer)] = flags
        self._stages[id(optimizer)] = _UNSCALED

    def _go_on_device(self, device: device) -> None:
        """From now on the scale, and the count of steps since it changed, are on ``device``."""
        self._on_device = (
            full((), self._scale, dtype=float32, device=device),
            full((), float(self._growth_tracker), dtype=float32, device=device),
        )
        self._tensors = {}

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Let ``optimizer`` step with unscaled gradients if all of them are finite.

        Returns
        -------
        What its ``step(*args, **kwargs)`` returned; ``None`` if it was left out.

        Raises
        ------
        RuntimeError
            If this was done since the last ``update``, there is no gradient, or a closure is given.
        """
        if recorders and (recorder := recording()) is not None:
            # A recorded step may be one that is left out.
            parameters = [each for group in optimizer.param_groups for each in group["params"]]
            function = functools.partial(GradScaler.step, self, optimizer, *args, **kwargs)
            return recorder.repeated(function, writes=parameters)
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        key = id(optimizer)
        if self._stages.get(key) == _STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if self._stages.get(key, _READY) == _READY:
            self.unscale_(optimizer)
        if not self._flags[key]:
            raise RuntimeError(
                "No inf checks were recorded for this optimizer: none of its parameters has a gradient"
            )
        if self._on_device is not None and _steps_on_device(optimizer):
            # The step itself looks whether a gradient was not finite.
            optimizer.found_inf = _any(self._flags[key])
            try:
                result = optimizer.step(*args, **kwargs)
            finally:
                del optimizer.found_inf
        else:
            result = None if self._overflowed(key) else optimizer.step(*args, **kwargs)
        self._stages[key] = _STEPPED
        return result

    def _overflowed(self, key: int) -> bool:
        """Whether a gradient of an optimizer was not finite; reads that back once."""
        result = self._overflows.get(key)
        if result is None:
            result = self._overflows[key] = any(flag.item() for flag in self._flags[key])
        return result

    @repeated
    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Let the scale fall or grow at the end of an iteration.

        Parameters
        ----------
        new_scale : float or Tensor, optional
            A number, or a tensor of one element, to set the scale to instead.

        Raises
        ------
        RuntimeError
            If no gradients were unscaled since the last one and ``new_scale`` is not passed.
        ValueError
            If ``new_scale`` is a tensor with another number of elements, or one that requires grad.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            if isinstance(new_scale, Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise ValueError(
                    f"new_scale should be a float or a 1-element tensor with requires_grad=False, got {new_scale!r}"
                )
            self._set(new_scale)
        else:
            if not any(self._flags.values()):
                raise RuntimeError(
                    "No inf checks were recorded prior to update: call step(optimizer) or unscale_(optimizer) before"
                )
            if self._on_device is not None:
                scale, tracker = self._on_device
                flag = _any([each for flags in self._flags.values() for each in flags]).to(scale.device)
                scale_step.update(
                    [[scale], [flag.reshape(())], [tracker]],
                    growth=self._growth_factor,
                    backoff=self._backoff_factor,
                    interval=float(self._growth_interval),
                    largest=finfo(float32).max,
                )
            elif any(self._overflowed(key) for key in self._flags):
                self._scale *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker >= self._growth_interval:
                    grown = self._scale * self._growth_factor
                    # float32 holds the scale, so it grows no further than that.
                    self._scale = grown if grown <= finfo(float32).max else self._scale
                    self._growth_tracker = 0
        self._forget()

    def get_scale(self) -> float:
        """The scale, a float; 1.0 if the scaler is not enabled."""
        if not self._enabled:
            return 1.0
        return self._scale if self._on_device is None else self._on_device[0].item()

    def _set(self, scale: Any) -> None:
        if self._on_device is None:
            self._scale = float(scale)
        else:
            # In place: a CUDA graph may read it.
            self._on_device[0].copy_(scale.reshape(())) if isinstance(scale, Tensor) else self._on_device[
                0
            ].fill_(scale)

    def _tracked(self) -> int:
        """Steps without overflow since the scale was changed."""
        return self._growth_tracker if self._on_device is None else int(self._on_device[1].item())

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by to grow."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by to grow to ``new_factor``, which is not checked.

        The next :meth:`update` that lets the scale grow uses it. 2.0 doubles the scale.
        """
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by to fall."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set what the scale is multiplied by to fall to ``new_factor``, which is not checked.

        The next :meth:`update` after an overflow uses it. 0.5 halves the scale.
        """
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Steps without overflow before the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set to ``new_interval`` how many steps without overflow there are before the scale grows.

        Steps without overflow that were counted already count. It is an int and not checked.
        """
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether the scaler does anything: what was passed as ``enabled``, and False on CUDA where there is no device."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, factors and counter as numbers, which :meth:`load_state_dict` takes; empty if not enabled.

        The keys are ``scale``, ``growth_factor``, ``backoff_factor``, ``growth_interval`` and ``_growth_tracker``.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._tracked(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from ``state_dict``, which :meth:`state_dict` returned; does nothing if this scaler is not enabled.

        Raises
        ------
        RuntimeError
            If it is that of a scaler that was not enabled.
        KeyError
            If one of its numbers is missing.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._set(float(state_dict["scale"]))
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]
        if self._on_device is not None:
            self._on_device[1].fill_(float(self._growth_tracker))
        self._tensors = {}

    def __getstate__(self) -> dict[str, Any]:
        if self._stages:
            raise RuntimeError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        numbers = {"_scale": self.get_scale(), "_growth_tracker": self._tracked(), "_on_device": None}
        return self.__dict__ | {"_tensors": {}} | numbers


@step("""
    if (overflowed != 0) {
        scale *= backoff;
        tracker = 0;
    } else if (++tracker >= interval) {
        const W grown = scale * growth;
        scale = grown <= largest ? grown : scale;
        tracker = 0;
    }
""")
def scale_step(
    scale: Any,
    overflowed: Any,
    tracker: Any,
    *,
    growth: float,
    backoff: float,
    interval: float,
    largest: float,
) -> None:
    """The scale falls, stays or grows, and steps are counted until it grows."""
    for i, flag in enumerate(overflowed):
        tracker[i] = 0 if flag else tracker[i] + 1
        if flag:
            scale[i] *= backoff
        elif tracker[i] >= interval:
            scale[i] = min(scale[i] * growth, largest)
            tracker[i] = 0


def _steps_on_device(optimizer: Any) -> bool:
    able = getattr(optimizer, "steps_on_device", None)
    return able is not None and able()


def _any(flags: list[Tensor]) -> Tensor:
    """A float32 element that is not 0 where one of ``flags`` is not."""
    result = flags[0]
    for each in flags[1:]:
        result = result + each.to(result.device)
    return result


def _refuse_in_capture(x: Tensor) -> None:
    state = x._layout.device_state
    if state.is_cuda and state.runtime.captures and state.runtime.is_captured(state.local.stream.handle):
        raise drv.CaptureError(
            "GradScaler while a stream is captured into a CUDA graph: its scale is a number of the host still, which every "
            "replay would use as it is now. Take a step before the capture (a warm-up on a side stream) with an optimizer "
            f"that has capturable=True, or SGD with fused=True: the scale is on the device then\n{called_by()}"
        )
