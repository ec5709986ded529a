"""Limits on figures, for continuous integration: ``sectors_over_needed>2``, ``softmax*:modelled_us>100``, ``all:launches>250``."""

from __future__ import annotations

import fnmatch
import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .kernels import Kernel

_FORM = re.compile(
    r"(?:(?P<kernel>[^:<>=]+):)?\s*(?P<metric>\w+)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>[^<>=]+)"
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
#: What stands for the whole script in the place of a kernel's name.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Limit:
    """What must not be: a comparison of a metric, of kernels whose name fits a pattern, or of the whole script."""

    text: str
    kernel: str
    metric: str
    sign: str
    value: Any

    @classmethod
    def parse(cls, text: str, metrics: Iterable[str], totals: Iterable[str]) -> Limit:
        """The limit that a text means. Raises ValueError that says what is wrong with it."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"{text!r}: expected METRIC>NUMBER or KERNEL:METRIC>NUMBER, such as sectors_over_needed>2"
            )
        kernel, metric, sign, value = (
            match["kernel"] or "*",
            match["metric"],
            match["sign"],
            match["value"].strip(),
        )
        known = list(totals if kernel == ALL else metrics)
        if metric not in known:
            raise ValueError(f"{text!r}: there is no metric {metric!r}; there are {', '.join(known)}")
        try:
            number: Any = float(value)
        except ValueError:
            if sign not in ("==", "!="):
                raise ValueError(f"{text!r}: {value!r} is no number") from None
            number = value
        return cls(text, kernel, metric, sign, number)

    def broken_by(self, kernels: Iterable[Kernel], totals: dict[str, Any]) -> list[str]:
        """Sentences that say which kernels are over, and by how much; empty if none is."""
        if self.kernel == ALL:
            value = totals.get(self.metric)
            over = value is not None and self._is_over(value)
            return [f"all: {self.metric} is {_number(value)}, over {self.text!r}"] if over else []
        result = []
        for kernel in kernels:
            if not fnmatch.fnmatchcase(kernel.name, self.kernel):
                continue
            values = [value for value in kernel.values(self.metric) if self._is_over(value)]
            if values:
                numbers = [each for each in values if not isinstance(each, str)]
                worst = values[0] if not numbers else (max if ">" in self.sign else min)(numbers)
                result.append(
                    f"{kernel.name}: {self.metric} is {_number(worst)}, over {self.text!r}"
                    + (f" ({kernel.line})" if kernel.line else "")
                )
        return result

    def _is_over(self, value: Any) -> bool:
        if isinstance(value, str) != isinstance(self.value, str):
            return False
        return _SIGNS[self.sign](value, self.value)


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
