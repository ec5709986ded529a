"""What the parameters of a C function are: arguments of a call, results, lists, or a value that is both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import c_types
from .prototypes import forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .prototypes import Form

#: Parameters that are called differently in Python: by the simulated driver, and by the bindings that it is like.
_RENAMED = {
    "len": "length",
    "type": "typename",
    "from": "from_",
    "input": "input_",
    "attrIdxs": "attrsIdxs",
    "param": "value",
}
#: Parameters that are lists, and what their number of items is called: the first of these that a function has.
_LISTS = {
    "attrIdxs": ("numAttrs",),
    "attrs": ("numAttrs",),
    "capabilities": ("count",),
    "cliqueInfo": ("count",),
    "dependencies": ("numDependencies",),
    "dependencyData": ("numDependencies",),
    "dependentNodes": ("numDependentNodes",),
    "dptrs": ("count",),
    "desc": ("count",),
    "dsts": ("count",),
    "edgeData": ("numEdges", "numDependencies", "numDependentNodes"),
    "from": ("numEdges", "numDependencies"),
    "groupParams": ("nbGroups",),
    "launchParamsList": ("numDevices",),
    "map": ("count",),
    "nodes": ("numNodes",),
    "operations": ("count",),
    "opList": ("numOps", "numParams"),
    "paramArray": ("count",),
    "prefetchLocIdxs": ("numPrefetchLocs",),
    "prefetchLocs": ("numPrefetchLocs",),
    "resources": ("nbResources", "count"),
    "result": ("nbGroups",),
    "rootNodes": ("numRootNodes",),
    "sizes": ("count",),
    "srcs": ("count",),
    "to": ("numEdges", "numDependencies"),
}
#: What ``void*`` leads to, where that is a value, by function.
_VALUES = {
    "cuDeviceGetGraphMemAttribute": "cuuint64_t",
    "cuMemExportToShareableHandle": "int",
    "cuMemPoolExportToShareableHandle": "int",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a form.

    Attributes
    ----------
    index : int
        Where it is among the function's parameters.
    c_type, name : str
        Its type and name in C.
    argument : str or None
        The argument of the simulated driver's call that it is; ``None`` for results.
    result : bool
        Whether a result is written through it. A count that is told how many items there is room for is both.
    count : int or None
        Of a list: index of the parameter that has the number of its items.
    """

    index: int
    c_type: str
    name: str
    argument: str | None
    result: bool
    count: int | None


class ListParameter:
    """A parameter that leads to items one after the other, with another parameter that says how many."""

    def __init__(self, form: Form, parameter: Parameter) -> None:
        assert parameter.count is not None
        self.index = parameter.index
        self.name, self.argument, self.result = parameter.name, parameter.argument, parameter.result
        self.count_at = parameter.count
        self._item = parameter.c_type.removeprefix("const ").removesuffix("*")
        self._count = c_types.reader(form.parameters[parameter.count][0])

    def read(self, arguments: Sequence[int]) -> list[Any] | None:
        """The items that are there; ``None`` where the list is a null pointer."""
        address = arguments[self.index]
        return c_types.items(self._item, address, self._count(arguments[self.count_at])) if address else None

    def write(self, arguments: Sequence[int], values: list[Any]) -> None:
        """Write as many items as there is room for, which the count still says."""
        if arguments[self.index]:
            room = self._count(arguments[self.count_at])
            c_types.write_items(self._item, arguments[self.index], values, room)


def parameters(form: Form, expected: list[str]) -> list[Parameter]:
    """The parameters of a form whose call takes the arguments named ``expected``."""
    names = [name for _, name in form.parameters]
    # The header and the bindings call some parameters differently.
    others = [name for name in expected if name not in names and name not in _RENAMED.values()]
    result = []
    for index, (declared, name) in enumerate(form.parameters):
        is_value = declared == "void*" and form.function in _VALUES
        c_type = f"{_VALUES[form.function]}*" if is_value else declared
        argument: str | None = name if name in expected else _RENAMED.get(name, name)
        if argument not in expected and others and not c_type.endswith("*"):
            argument = others.pop(0)
        argument = argument if argument in expected else None
        count = next((names.index(each) for each in _LISTS.get(name, ()) if each in names), None)
        is_list = count is not None and c_type.endswith("*")
        both = argument is not None and not is_list and c_types.is_variable(c_type)
        result.append(
            Parameter(index, c_type, name, argument, both or argument is None, count if is_list else None)
        )
    return result


def result_names(form: Form, expected: list[str]) -> list[str]:
    """Names of the call's results, in its order: those of the latest form that has all its arguments."""
    for other in reversed(forms()[form.function]):
        known = parameters(other, expected)
        if sum(each.argument is not None for each in known) == len(expected):
            break
    else:
        known = parameters(form, expected)
    return [each.name for each in known if each.result]
