"""C functions that end in the calls of a simulated driver."""

from __future__ import annotations

import ctypes
import inspect
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cuda

from drv.host import collector
from drv.simulator.memory.tensor_map import MOST_DIMENSIONS

from . import c_types
from .parameters import ListParameter, parameters, result_names
from .prototypes import forms
from .stubs import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from .parameters import Parameter
    from .prototypes import Form

SUCCESS, INVALID_VALUE, NOT_INITIALIZED, NOT_SUPPORTED, UNKNOWN = 0, 1, 3, 801, 999
LOSSY_QUERY = int(cuda.CUresult.CUDA_ERROR_LOSSY_QUERY)
#: The stream whose meaning depends on the function's form, and what it is in those for per-thread streams.
_PER_THREAD_STREAM = 2
#: Functions that the simulated driver, like the bindings, has under another name.
_OTHER_NAMES = {"cuGraphInstantiateWithFlags": "cuGraphInstantiate"}
_FOUR_BYTES = ("ACCESS_FLAGS", "MEMORY_TYPE", "SYNC_MEMOPS", "IS_MANAGED", "DEVICE_ORDINAL", "MAPPED")


class CFunctions:
    """Makes the C functions of one simulated driver.

    Parameters
    ----------
    driver
        The simulated driver.
    seen : callable, optional
        Called with a function's name before each call; a status that it returns is the call's answer.
    """

    def __init__(self, driver: Any, seen: Callable[[str], int | None] | None = None) -> None:
        self.driver = driver
        self._seen = seen
        self._process = os.getpid()
        self._entries: dict[str, Any] = {}
        #: Names of functions that were called and are not simulated.
        self.refused: set[str] = set()

    def function(self, form: Form) -> Any:
        """The C function for one form of a driver function. One that is not simulated says so when it is called."""
        if form.symbol not in self._entries:
            types = [c_types.ctype(c_type) for c_type, _ in form.parameters]
            entry = self._guarded(form, self._answer(form))
            self._entries[form.symbol] = ctypes.CFUNCTYPE(ctypes.c_int, *types)(entry)
        return self._entries[form.symbol]

    def image(self, address: int) -> bytes | None:
        """The code at ``address`` that is to be loaded."""
        return c_types.image(address) if address else None

    def _guarded(self, form: Form, answer: Callable[..., int]) -> Callable[..., int]:
        name = form.symbol.removesuffix("_ptsz").removesuffix("_ptds")
        name = name if hasattr(type(self.driver), name) else form.function

        def function(*arguments: Any) -> int:
            if os.getpid() != self._process:
                return NOT_INITIALIZED
            forced = self._seen(name) if self._seen is not None else None
            if forced is not None:
                return forced
            collector.pause()
            try:
                return answer(*arguments)
            except (TypeError, ValueError, OverflowError):
                # An argument of C that has no meaning in the simulated driver.
                traceback.print_exc()
                return INVALID_VALUE
            except BaseException:
                # Nothing may pass through C.
                if sys.is_finalizing():
                    return ENDED
                traceback.print_exc()
                return UNKNOWN
            finally:
                collector.resume()

        return function

    def _answer(self, form: Form) -> Callable[..., int]:
        symbol = re.sub(r"_pt[ds][sz]$", "", form.symbol)
        name = symbol if hasattr(type(self.driver), symbol) else form.function
        name = _OTHER_NAMES.get(name, name)
        if not hasattr(type(self.driver), name) or _is_narrow(form):
            return lambda *arguments: self._refuse(form)
        call = getattr(self.driver, name)
        special = getattr(self, f"_{name}", None)
        if special is not None:
            return lambda *arguments: int(special(call, form, *arguments))
        return self._plain(
            form, call, list(inspect.signature(getattr(type(self.driver), name)).parameters)[1:]
        )

    def _refuse(self, form: Form) -> int:
        self.refused.add(form.symbol)
        return NOT_SUPPORTED

    def _plain(self, form: Form, call: Any, expected: list[str]) -> Callable[..., int]:
        """An answer for parameters each of which is an argument of the call, where to write a result, or both."""
        known = parameters(form, expected)
        names = result_names(form, expected)
        absent = dict.fromkeys({*expected} - {each.argument for each in known})
        single = [each for each in known if each.count is None]
        lists = [ListParameter(form, each) for each in known if each.count is not None]
        readers = [
            (each.index, each.argument, _reader(form, each)) for each in single if each.argument is not None
        ]
        written = [
            (each.index, each.c_type, names.index(each.name))
            for each in single
            if each.result and each.name in names
        ]
        read = [(each.argument, each) for each in lists if each.argument is not None]
        filled = [(each, names.index(each.name)) for each in lists if each.result and each.name in names]
        # A question for the number only comes without lists.
        rooms = {
            argument: [each.index for each, _ in filled if each.count_at == index]
            for index, argument, _ in readers
            if any(each.count_at == index for each, _ in filled)
        }
        edges = names.index("edgeData") if "edgeData" in names else None
        edges_at = next((each.index for each in lists if each.name == "edgeData"), None)

        def answer(*arguments: Any) -> int:
            operands = {name: reader(arguments[index]) for index, name, reader in readers}
            for name, each in read:
                operands[name] = each.read(arguments)
            for name, indices in rooms.items():
                if not any(arguments[index] for index in indices):
                    operands[name] = 0
            status, *results = call(**operands, **absent)
            if status:
                return int(status)
            if (
                edges is not None
                and (edges_at is None or not arguments[edges_at])
                and _matter(results[edges])
            ):
                return LOSSY_QUERY
            for each, position in filled:
                each.write(arguments, results[position])
            for index, c_type, position in written:
                if arguments[index]:
                    c_types.write(c_type, arguments[index], results[position])
            return int(status)

        return answer

    # Calls whose arguments say how long others are, or of which type

    def _cuModuleLoadData(self, call: Any, form: Form, module: int, image: int) -> int:
        return _written("CUmodule*", module, call(self.image(image)))

    def _cuModuleLoadFatBinary(self, call: Any, form: Form, module: int, image: int) -> int:
        return _written("CUmodule*", module, call(self.image(image)))

    def _cuModuleLoadDataEx(
        self, call: Any, form: Form, module: int, image: int, count: int, options: int, values: int
    ) -> int:
        jit_options, numbers = _jit_options(count, options, values)
        return _written("CUmodule*", module, call(self.image(image), count, jit_options, numbers))

    def _cuLibraryLoadData(
        self,
        call: Any,
        form: Form,
        library: int,
        code: int,
        options: int,
        values: int,
        count: int,
        *rest: int,
    ) -> int:
        jit_options, numbers = _jit_options(count, options, values)
        answer = call(self.image(code), jit_options, numbers, count, [], [], 0)
        return _written("CUlibrary*", library, answer)

    def _cuLibraryLoadFromFile(
        self,
        call: Any,
        form: Form,
        library: int,
        path: int,
        options: int,
        values: int,
        count: int,
        *rest: int,
    ) -> int:
        jit_options, numbers = _jit_options(count, options, values)
        answer = call(ctypes.string_at(path) if path else None, jit_options, numbers, count, [], [], 0)
        return _written("CUlibrary*", library, answer)

    def _cuModuleEnumerateFunctions(
        self, call: Any, form: Form, functions: int, count: int, module: int
    ) -> int:
        return _written_array(functions, call(count, module))

    def _cuLibraryEnumerateKernels(
        self, call: Any, form: Form, kernels: int, count: int, library: int
    ) -> int:
        return _written_array(kernels, call(count, library))

    def _cuLinkCreate(self, call: Any, form: Form, count: int, options: int, values: int, state: int) -> int:
        jit_options, numbers = _jit_options(count, options, values)
        return _written("CUlinkState*", state, call(count, jit_options, numbers))

    def _cuLinkAddData(
        self,
        call: Any,
        form: Form,
        state: int,
        input_type: int,
        data: int,
        size: int,
        name: int,
        *options: int,
    ) -> int:
        jit_options, numbers = _jit_options(*options)
        return int(call(state, input_type, data, size, b"", options[0], jit_options, numbers)[0])

    def _cuLinkAddFile(
        self, call: Any, form: Form, state: int, input_type: int, path: int, *options: int
    ) -> int:
        jit_options, numbers = _jit_options(*options)
        return int(
            call(
                state, input_type, ctypes.string_at(path) if path else None, options[0], jit_options, numbers
            )[0]
        )

    def _cuPointerGetAttribute(self, call: Any, form: Form, data: int, attribute: int, address: int) -> int:
        expected = cuda.CUpointer_attribute(attribute)
        return _written(_type_of_attribute(expected), data, call(expected, address))

    def _cuPointerGetAttributes(
        self, call: Any, form: Form, count: int, attributes: int, values_address: int, address: int
    ) -> int:
        expected = [cuda.CUpointer_attribute(each) for each in c_types.array(ctypes.c_int, attributes, count)]
        status, values = call(count, expected, address)
        if not status:
            for attribute, value_address, value in zip(
                expected, c_types.array(ctypes.c_size_t, values_address, count), values, strict=True
            ):
                c_types.write(_type_of_attribute(attribute), value_address, value)
        return int(status)

    def _cuCoredumpGetAttribute(self, call: Any, form: Form, attribute: int, value: int, size: int) -> int:
        status, result = call(attribute)
        if not status:
            data = (
                result + b"\0"
                if isinstance(result, bytes)
                else int(result).to_bytes(_dump_bytes(attribute), "little")
            )
            room = ctypes.c_size_t.from_address(size)
            if value:
                ctypes.memmove(value, data, min(len(data), room.value))
            room.value = len(data)
        return int(status)

    def _cuCoredumpGetAttributeGlobal(self, call: Any, form: Form, *arguments: int) -> int:
        return self._cuCoredumpGetAttribute(call, form, *arguments)

    def _cuCoredumpSetAttribute(self, call: Any, form: Form, attribute: int, value: int, size: int) -> int:
        length = ctypes.c_size_t.from_address(size).value if size else 0
        data = ctypes.string_at(value, length) if value else b""
        width = _dump_bytes(attribute)
        return int(
            call(attribute, int.from_bytes(data[:width], "little") if width else data.split(b"\0")[0])[0]
        )

    def _cuCoredumpSetAttributeGlobal(self, call: Any, form: Form, *arguments: int) -> int:
        return self._cuCoredumpSetAttribute(call, form, *arguments)

    def _cuTexRefSetBorderColor(self, call: Any, form: Form, reference: int, colour: int) -> int:
        return int(call(reference, ctypes.c_float.from_address(colour).value)[0]) if colour else INVALID_VALUE

    def _cuPointerSetAttribute(self, call: Any, form: Form, value: int, attribute: int, address: int) -> int:
        number = ctypes.c_uint.from_address(value).value if value else None
        return INVALID_VALUE if number is None else int(call(number, attribute, address)[0])

    def _cuMemRangeGetAttribute(
        self, call: Any, form: Form, data: int, size: int, attribute: int, *span: int
    ) -> int:
        status, value = call(size, cuda.CUmem_range_attribute(attribute), *span)
        if not status:
            _write_range_attribute(data, size, value)
        return int(status)

    def _cuMemRangeGetAttributes(
        self, call: Any, form: Form, data: int, sizes: int, attributes: int, count: int, *span: int
    ) -> int:
        asked = [cuda.CUmem_range_attribute(each) for each in c_types.array(ctypes.c_int, attributes, count)]
        lengths = c_types.array(ctypes.c_size_t, sizes, count)
        status, values = call(lengths, asked, count, *span)
        if not status:
            addresses = c_types.array(ctypes.c_size_t, data, count)
            for address, length, value in zip(addresses, lengths, values, strict=True):
                _write_range_attribute(address, length, value)
        return int(status)

    def _cuDeviceSetGraphMemAttribute(
        self, call: Any, form: Form, device: int, attribute: int, value: int
    ) -> int:
        return int(call(device, attribute, ctypes.c_uint64.from_address(value).value if value else None)[0])

    def _cuMemPoolGetAttribute(self, call: Any, form: Form, pool: int, attribute: int, value: int) -> int:
        status, result = call(pool, cuda.CUmemPool_attribute(attribute))
        return _written("int*" if isinstance(result, int) else "size_t*", value, (status, result))

    def _cuMemPoolSetAttribute(self, call: Any, form: Form, pool: int, attribute: int, value: int) -> int:
        pool_attribute = cuda.CUmemPool_attribute(attribute)
        wide = any(fragment in pool_attribute.name for fragment in ("_MEM_", "THRESHOLD"))
        number = (ctypes.c_uint64 if wide else ctypes.c_int).from_address(value).value
        return int(call(pool, pool_attribute, cuda.cuuint64_t(number) if wide else number)[0])

    def _cuTensorMapEncodeTiled(
        self, call: Any, form: Form, tensor_map: int, dtype: int, rank: int, address: int, *others: int
    ) -> int:
        *lists, interleave, swizzle, promotion, fill = others
        sizes, strides, box, steps = _dimensions(rank, lists)
        answer = call(dtype, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill)
        return _written("CUtensorMap*", tensor_map, answer)

    def _cuStreamGetCaptureInfo(self, call: Any, form: Form, stream: int, *addresses: int) -> int:
        status, *results = call(_thread_stream(stream) if form.per_thread else stream)
        if not status:
            for (c_type, name), address in zip(form.parameters[1:], addresses, strict=True):
                if address and name in ("captureStatus_out", "id_out", "graph_out"):
                    position = ("captureStatus_out", "id_out", "graph_out").index(name)
                    c_types.write(c_type, address, results[position])
                elif address:
                    # Nothing is captured, so that there is nothing that it depends on.
                    ctypes.c_size_t.from_address(address).value = 0
        return int(status)


def _is_narrow(form: Form) -> bool:
    """Whether addresses and sizes have 32 bits in this form; CUDA 3.2 replaced those."""
    wide = [each for each in forms()[form.function] if each.version == 3020]
    return form.version < 3020 and any(each.parameters != form.parameters for each in wide)


def _reader(form: Form, parameter: Parameter) -> Callable[[Any], Any]:
    if form.per_thread and parameter.c_type == "CUstream":
        return _thread_stream
    return c_types.reader(parameter.c_type)


def _matter(edges: list[Any]) -> bool:
    """Whether a program that does not ask what edges of a graph are like misses something."""
    return any(each.from_port or each.to_port or int(each.type) for each in edges)


def _dump_bytes(attribute: int) -> int:
    """Bytes of a setting of core dumps; 0 for a text."""
    name = cuda.CUcoredumpSettings(attribute).name
    if name.endswith(("_FILE", "_PIPE")):
        return 0
    return 4 if name.endswith("_FLAGS") else 1


def _write_range_attribute(address: int, size: int, value: Any) -> None:
    numbers = [int(each) for each in (value if isinstance(value, list) else [value])]
    ctypes.memmove(address, (ctypes.c_int * len(numbers))(*numbers), min(size, 4 * len(numbers)))


def _thread_stream(stream: int) -> int:
    return stream or _PER_THREAD_STREAM


def _written(c_type: str, address: int, answer: tuple[Any, Any]) -> int:
    status, value = answer
    if not status:
        if not address:
            return INVALID_VALUE
        c_types.write(c_type, address, value)
    return int(status)


def _written_array(address: int, answer: tuple[Any, Any]) -> int:
    status, values = answer
    if not status:
        for index, value in enumerate(values):
            c_types.write("size_t*", address + 8 * index, value)
    return int(status)


def _jit_options(count: int, options: int, values: int) -> tuple[list[Any], list[int]]:
    jit_options = [cuda.CUjit_option(number) for number in c_types.array(ctypes.c_int, options, count)]
    return jit_options, c_types.array(ctypes.c_size_t, values, count)


def _dimensions(rank: int, addresses: list[int]) -> list[list[int]]:
    """Numbers for each dimension of a tensor: two arrays of 64 bits, and two of 32."""
    count = min(rank, MOST_DIMENSIONS)
    types = (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2
    # Strides are one fewer than the others.
    counts = count, max(count - 1, 0), count, count
    return [c_types.array(*each) for each in zip(types, addresses, counts, strict=True)]


def _type_of_attribute(attribute: Any) -> str:
    short = attribute.name.removeprefix("CU_POINTER_ATTRIBUTE_") in _FOUR_BYTES
    return "int*" if short else "size_t*"
