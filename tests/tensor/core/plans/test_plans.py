"""Plans: worked out once for each key, by an object's method or by a function alone."""

from __future__ import annotations

from tensor.core.plans import Plans, planned


def test_a_planned_function_is_called_once_for_each_key() -> None:
    calls: list[tuple[int, ...]] = []

    def plan(*sizes: int) -> int:
        calls.append(sizes)
        return sum(sizes)

    plans, operation, same = Plans(), planned(plan), planned(plan)
    assert [plans[operation, 1, 2], plans[operation, 1, 2], plans[operation, 3]] == [3, 3, 3]
    assert calls == [(1, 2), (3,)]
    # Each is a key of its own.
    assert plans[same, 1, 2] == 3
    assert calls == [(1, 2), (3,), (1, 2)]


def test_one_function_plans_a_family() -> None:
    def plan(name: str, size: int, *, scale: int = 1) -> str:
        return f"{name} {size * scale}"

    plans = Plans()
    assert plans[planned(plan, "mm"), 2] == "mm 2"
    assert plans[planned(plan, "bmm", scale=3), 2] == "bmm 6"
    assert repr(planned(plan, "mm")).endswith("test_one_function_plans_a_family.<locals>.plan>")
