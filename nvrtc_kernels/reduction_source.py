"""Text of the kernels of a reduction: the parts that ``cuda/reduction.cuh`` leaves to its user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lookups import bounds_of
from .lookups import members as lookup_members
from .reduction_work import THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dtypes import dtype
    from .reducers import Reducer
    from .reduction_work import Work

#: Inputs of a reduction, at most.
MOST_INPUTS = 8
_NAMES = "abcdefgh"
#: Types of numbers that are given at the launch.
CTYPES: dict[str | int, str] = {"d": "double", "f": "float", "q": "long long", "i": "int", "?": "bool"}
_HALF = ("Half", "BFloat16")


def kernel_source(
    reducer: Reducer,
    outputs: Sequence[dtype],
    inputs: Sequence[dtype],
    layout: str,
    variant: str,
    work: Work,
    fold: int,
    tasks: int = 0,
) -> str:
    """Text of the kernel ``<name>_<variant>``, and of ``<name>_fold`` where rows are cut into chunks.

    Parameters
    ----------
    layout
        Type of the structure that says where operands lie.
    work
        How the threads are laid out, and what each loads at once.
    fold
        Threads that combine the chunks of a row; 0 where a row is not cut.
    tasks
        Reductions of one launch, at most, whose layouts and operands are in a table of that many; 0 for a kernel of one
        reduction.
    """
    names = _NAMES[: len(inputs)]
    scalars = [(CTYPES[code], name) for name, code in reducer.scalars]
    headers = [
        "reduction.cuh",
        *(["checked_index.cuh"] if reducer.lookups else []),
        *reducer.include.split(),
    ]
    scalar_names = [name for _, name in scalars]
    results = [f"out{k}" for k in range(len(outputs))]
    parameters = [f"{dtype.cuda}* {name}" for dtype, name in zip(outputs, results, strict=True)]
    parameters += [f"const {dtype.cuda}* {name}" for dtype, name in zip(inputs, names, strict=True)]
    parameters += [f"{ctype} {name}" for ctype, name in scalars] + ["void* scratch"]
    final = f"Final<Results>{{{{{', '.join([*results, *scalar_names])}}}}}"
    partial = "static_cast<Reducer::State*>(scratch)"

    def kernel(name: str, body: str, threads: int = THREADS) -> str:
        head = f'extern "C" __global__ void __launch_bounds__({threads}) {reducer.name}_{name}'
        if not tasks:
            return f"\n{head}(Layout layout, {', '.join(parameters)}) {{\n    {body};\n}}\n"
        table = f"Reductions<Layout, {len(outputs) + len(inputs)}, {tasks}>"
        lines = ["const auto& task = table.task[blockIdx.y];", "const Layout& layout = task.layout;"]
        for number, (dtype, operand) in enumerate(zip((*outputs, *inputs), (*results, *names), strict=True)):
            lines.append(f"auto* {operand} = static_cast<{dtype.cuda}*>(task.address[{number}]);")
        lines += ["void* scratch = memory + task.scratch;", f"{body};"]
        inner = "".join(f"    {line}\n" for line in lines)
        return f"\n{head}(const __grid_constant__ {table} table, char* memory) {{\n{inner}}}\n"

    sink = f"Partial<Reducer::State>{{{partial}}}" if fold else final
    text = "".join(f'#include "{header}"\n' for header in headers)
    text += _elements(reducer, inputs, names, scalars, work.stretched) + _results(
        reducer, outputs, results, scalars
    )
    text += f"\ntypedef {layout} Layout;\n"
    rounded = reducer.state_of_half and all(dtype.cuda in _HALF for dtype in outputs)
    state = reducer.state_of_half if rounded else reducer.state
    text += f"typedef {state}<ValueOf<Elements>, Layout::Number> Reducer;\n"
    elements = f"Elements{{{', '.join([*names, *scalar_names])}}}"
    threads = max(work.along * work.across, THREADS)
    text += kernel(variant, f"{work.call}(layout, {elements}, {sink})", threads)
    if fold:
        text += kernel("fold", f"fold_chunks<Reducer, {fold}>(layout, {partial}, {final})")
    return text


def _elements(
    reducer: Reducer,
    inputs: Sequence[dtype],
    names: str,
    scalars: Sequence[tuple[str, str]],
    stretched: Sequence[int],
) -> str:
    """What loads operands and maps them to the value that is reduced."""
    operands = list(zip(inputs, names, strict=True))
    convert = "to_compute({})"
    if reducer.compute is not None:
        compute = "float" if reducer.compute.cuda in _HALF else reducer.compute.cuda
        convert = f"to_element<{compute}>(to_compute({{}}))"
    items = "".join(f" Pack<{dtype.cuda}, Width> {name};" for dtype, name in operands)
    loads = ", ".join(
        f"{'same_at' if k in stretched else 'pack_at'}<Width>({name}_ + at[{k}])"
        for k, name in enumerate(names)
    )
    same = " && ".join(f"head == to_boundary<Width>({name}_ + at[{k}])" for k, name in enumerate(names) if k)
    values = "".join(
        f"        const auto {name} = {convert.format(f'items.{name}.item[i]')};\n" for name in names
    )
    by_index = lookup_members(reducer.lookups, [f"{names[each.index]}_" for each in reducer.lookups], 0)
    return (
        "\n"
        + "".join(bounds_of(reducer.lookups))
        + "struct Elements {\n"
        + "".join(f"    const {dtype.cuda}* {name}_;\n" for dtype, name in operands)
        + "".join(f"    {ctype} {name};\n" for ctype, name in scalars)
        + "".join(f"{line}\n" for line in by_index)
        + f"    template <int Width> struct Items {{{items} }};\n"
        + "    template <int Width, class Index>\n"
        + f"    __device__ Items<Width> load(const Index (&at)[{len(inputs)}]) const {{\n"
        + f"        return {{{loads}}};\n    }}\n"
        + "    template <int Width, class Index>\n"
        + f"    __device__ int before_pack(const Index (&at)[{len(inputs)}]) const {{\n"
        + "        const int head = to_boundary<Width>(a_ + at[0]);\n"
        + f"        return {f'{same} ? head : -1' if same else 'head'};\n    }}\n"
        + "    template <class I>\n"
        + "    __device__ auto value(const I& items, int i) const {\n"
        + f"{values}        return {reducer.code};\n    }}\n}};\n"
    )


def _results(
    reducer: Reducer, outputs: Sequence[dtype], names: Sequence[str], scalars: Sequence[tuple[str, str]]
) -> str:
    """What stores the outputs of a row, those that its expressions only read left out."""
    rows = list(zip(outputs, names, reducer.results, strict=True))
    stores = "".join(f"        {line}\n" for line in reducer.epilogue)
    stores += "".join(
        f"        {name}[at[{k}]] = to_element<{dtype.cuda}>({code});\n"
        for k, (dtype, name, code) in enumerate(rows)
        if code
    )
    return (
        "\n"
        + "".join(reducer.declarations)
        + "struct Results {\n"
        + "".join(f"    {dtype.cuda}* {name};\n" for dtype, name, _ in rows)
        + "".join(f"    {ctype} {name};\n" for ctype, name in scalars)
        + "    template <class State, class Index, int Operands>\n"
        + "    __device__ void store(const State& x, long long count, const Index (&at)[Operands]) const {\n"
        + f"{stores}    }}\n}};\n"
    )
