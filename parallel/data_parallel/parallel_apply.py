"""Modules that run at the same time, each in a thread of its own."""

from __future__ import annotations

import contextlib
import threading
import traceback
from typing import TYPE_CHECKING, Any

from tensor import Tensor, inference_mode, set_grad_enabled
from tensor import cuda as cuda_state
from tensor.core.modes.grad_mode import modes
from tensor.utils.forward_state import note

from .devices import ordinal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its input, in threads: one for each, unless there is only one module.

    In a thread the module's device is the current one; streams, grad mode, inference mode and autocast are those of the
    caller.

    >>> x0, x1 = tensor.tensor([-1.0], device="cuda:0"), tensor.tensor([-2.0], device="cuda:1")
    >>> parallel.parallel_apply([nn.functional.relu, tensor.add], [x0, (x1, x1)])
    [tensor([0.], device='cuda:0'), tensor([-4.], device='cuda:1')]

    Parameters
    ----------
    modules : sequence of Module
        Mostly replicas of one module; any callables.
    inputs : sequence
        For each module the tuple of its arguments, or its one argument.
    kwargs_tup : sequence of dict, optional
        For each module its keyword arguments.
    devices : sequence of device, str or int, optional
        CUDA devices; by default those of the first tensor in each module's arguments.

    Returns
    -------
    list
        What the modules return.

    Raises
    ------
    ValueError
        If numbers of arguments differ, or a device is neither passed nor that of a tensor.
    Exception
        What a module raises, or what fails as its thread enters or leaves the device, of the same type. The text has its traceback, and the number and device of the module.
    """
    count = len(modules)
    kwargs = [{}] * count if kwargs_tup is None else kwargs_tup
    for name, arguments in (("inputs", inputs), ("kwargs_tup", kwargs), ("devices", devices)):
        if arguments is not None and len(arguments) != count:
            raise ValueError(
                f"parallel_apply() got {count} modules, but {len(arguments)} {name}: there is one for each"
            )
    ordinals = [
        _device_of(number, inputs[number], kwargs[number]) if devices is None else ordinal_of(devices[number])
        for number in range(count)
    ]
    calls = [
        _Call(
            module,
            arguments if isinstance(arguments, (tuple, list)) else (arguments,),
            named,
            ordinal,
            number,
        )
        for number, (module, arguments, named, ordinal) in enumerate(
            zip(modules, inputs, kwargs, ordinals, strict=True)
        )
    ]
    if count == 1:
        calls[0].run([cuda_state.device(ordinals[0])])
    else:
        _run_in_threads(calls)
    failed = next((call for call in calls if call.error is not None), None)
    if failed is not None:
        # The traceback, which refers to this frame, shall not keep what the others have computed.
        calls.clear()
        raise failed.described() from None
    return [call.result for call in calls]


def _device_of(number: int, arguments: Any, named: dict[str, Any]) -> int:
    first = _first_tensor((arguments, named))
    if first is None or not first.is_cuda:
        where = "no tensor was found" if first is None else f"the first tensor is on {first.device}"
        raise ValueError(
            f"In replica {number}, no device was provided and {where} in its input; device cannot be resolved: pass "
            "devices"
        )
    ordinal: int = first.get_device()
    return ordinal


def _first_tensor(obj: Any) -> Tensor | None:
    if isinstance(obj, Tensor):
        return obj
    items = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, (tuple, list)) else ()
    for each in items:
        tensor = _first_tensor(each)
        if tensor is not None:
            return tensor
    return None


class _Call:
    """A call of a module, and what came of it."""

    __slots__ = ("args", "device", "error", "kwargs", "module", "number", "result")

    def __init__(
        self, module: Any, args: Sequence[Any], kwargs: dict[str, Any], device: int, number: int
    ) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.device = device
        self.number = number
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, blocks: Iterable[contextlib.AbstractContextManager[Any]]) -> None:
        """Call the module inside ``blocks``; nothing is raised."""
        try:
            with contextlib.ExitStack() as stack:
                for block in blocks:
                    stack.enter_context(block)
                try:
                    self.result = self.module(*self.args, **self.kwargs)
                except BaseException as error:
                    self.error = error
        except BaseException as error:
            # A block that cannot be entered, or left: after the module's own failure that is no news.
            self.error = self.error or error

    def described(self) -> BaseException:
        """What the module has raised: of the same type, with its traceback and where it was raised in the text.

        It is a ``RuntimeError`` where the class takes no message.
        """
        error, self.error = self.error, None
        assert error is not None
        if not isinstance(error, Exception):
            return error
        shown = "".join(traceback.format_exception(error))
        # What the module had is freed although something may still refer to the error.
        traceback.clear_frames(error.__traceback__)
        return _with_text(
            type(error),
            f"Caught {type(error).__name__} in replica {self.number} on device {self.device}.\nOriginal {shown}",
        )


def _run_in_threads(calls: Sequence[_Call]) -> None:
    state = note(random=False)
    recording, inference = modes.recording, modes.inference

    def work(call: _Call) -> None:
        call.run(blocks(call.device))

    # Each is constructed inside the one before, as setting the grad mode is an effect of the construction.
    def blocks(device: int) -> Iterator[contextlib.AbstractContextManager[Any]]:
        if inference:
            yield inference_mode()
        yield set_grad_enabled(recording)
        yield state()
        yield cuda_state.device(device)

    threads = [
        threading.Thread(target=work, args=(call,), name=f"replica {call.number} on device {call.device}")
        for call in calls
    ]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
    finally:
        for thread in started:
            thread.join()


def _with_text(error_type: Callable[[str], Exception], text: str) -> Exception:
    with contextlib.suppress(Exception):
        error = error_type(_Text(text))
        if type(error) is error_type and text in str(error):
            return error
    return RuntimeError(text)


class _Text(str):
    """A message that ``KeyError``, which shows the representation, shows line by line too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
