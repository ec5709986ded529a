"""A kernel's plan whose basic blocks tell a meter of every run.

It stands in the place of the plain plan while batches are metered, so that nothing of it is there otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drv.simulator.execution.translation.code import Code
    from drv.simulator.execution.translation.plan import FunctionPlan, KernelPlan

    from .iterations import Iterations
    from .meter import Meter


class MeteredPlan:
    """A kernel's plan whose blocks tell the meter of every run; all else is the plan's own."""

    def __init__(self, plan: KernelPlan, meter: Meter, iterations: Iterations | None = None) -> None:
        self._plain = plan
        self._meter = meter
        #: Where iterations may be left out.
        self._iterations = iterations
        self._functions: dict[str, MeteredFunction] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def function(self, name: str) -> MeteredFunction:
        """Translated function ``name``."""
        result = self._functions.get(name)
        if result is None:
            iterations = self._iterations if name == self._plain.entry.name else None
            plan = self._plain.function(name)
            result = self._functions[name] = MeteredFunction(plan, self, self._meter, iterations)
        return result


class MeteredFunction:
    """A function's plan whose blocks tell the meter of every run."""

    def __init__(
        self, plan: FunctionPlan, kernel: MeteredPlan, meter: Meter, iterations: Iterations | None
    ) -> None:
        self._plain = plan
        self._meter = meter
        self._iterations = iterations
        self.kernel = kernel
        self._codes: dict[int, Code] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def code(self, index: int) -> Code:
        """Block ``index``, translated, behind the meter."""
        code = self._codes.get(index)
        if code is None:
            code = self._codes[index] = self._metered(self._plain.code(index))
        return code

    def _metered(self, code: Code) -> Code:
        metered = copy_of(code)
        meter, number, name = self._meter, id(code), self._plain.function.name
        run, block = code.body, code.block

        def counted(lanes: Any, registers: Any) -> Any:
            meter.ran(number, block, name, lanes)
            return run(lanes, registers)

        iterations = self._iterations
        if iterations is None:
            metered.body = metered.whole = counted  # type: ignore[assignment]
            return metered
        index = block.index

        def followed_body(lanes: Any, registers: Any) -> Any:
            decision = counted(lanes, registers)
            iterations.ran(index, lanes, decision)
            return decision

        def followed_whole(lanes: Any, registers: Any) -> Any:
            iterations.arrives(index, registers, lanes)
            return followed_body(lanes, registers)

        metered.body, metered.whole = followed_body, followed_whole  # type: ignore[assignment]
        return metered


def copy_of(code: Code) -> Code:
    """A translated block with all that the other has."""
    result = object.__new__(type(code))
    for name in type(code).__slots__:
        if hasattr(code, name):
            setattr(result, name, getattr(code, name))
    return result
