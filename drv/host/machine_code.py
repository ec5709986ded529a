"""From LLVM's assembler to functions of this process, by the optional package llvmlite.

Code is compiled for the very processor that it runs on, as an object file, which is kept on disk as it is. What is loaded
stays in memory as long as its :class:`LoadedCode`.
"""

from __future__ import annotations

import functools
import importlib.util
import platform
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Versions of llvmlite whose interface is known: from this one on.
_OLDEST = (0, 45)


@functools.cache
def available() -> bool:
    """Whether native code can be made and run here."""
    if importlib.util.find_spec("llvmlite") is None:
        return False
    try:
        import llvmlite
    except ImportError:
        return False
    version = tuple(int(number) for number in llvmlite.__version__.split(".")[:2] if number.isdecimal())
    return version >= _OLDEST and _machine() is not None


@functools.cache
def identity() -> str:
    """What object files depend on beside their source: compiler and processor."""
    import llvmlite
    from llvmlite import binding

    return " ".join(
        (
            llvmlite.__version__,
            binding.get_process_triple(),
            binding.get_host_cpu_name(),
            binding.get_host_cpu_features().flatten(),
            *_addresses().values(),
        )
    )


def has_feature(*names: str) -> bool:
    """Whether the processor has instructions of one of these names of LLVM's."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    return any(features.get(name, False) for name in names)


def _addresses() -> dict[str, str]:
    """How code names addresses: in 64 bits where LLVM can, as its parts may lie further apart in memory than 32 bits reach.

    In a process that has mapped many gigabytes they do, and the linker would end it.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        return {"reloc": "static", "codemodel": "large"}
    return {"reloc": "pic", "codemodel": "small"}


@functools.cache
def _machine() -> Any:
    """LLVM for this processor, or ``None`` if it has nothing for it."""
    from llvmlite import binding

    try:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        target = binding.Target.from_triple(binding.get_process_triple())
        return target.create_target_machine(
            cpu=binding.get_host_cpu_name(),
            features=binding.get_host_cpu_features().flatten(),
            opt=2,
            jit=True,
            **_addresses(),
        )
    except RuntimeError:
        return None


def compiled(assembler: str) -> bytes:
    """The object file of a text in LLVM's assembler."""
    from llvmlite import binding

    machine = _machine()
    module = binding.parse_assembly(assembler)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False
    tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    result: bytes = machine.emit_object(module)
    return result


@functools.cache
def _linker() -> Any:
    from llvmlite import binding

    return binding.create_lljit_compiler(_machine())


class LoadedCode:
    """An object file in memory.

    Parameters
    ----------
    image : bytes
        The object file.
    name : str
        Unlike that of any other in this process.
    exported : iterable of str
        Functions whose addresses are wanted.
    """

    def __init__(self, image: bytes, name: str, exported: Iterable[str]) -> None:
        from llvmlite import binding

        builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        exported = list(exported)
        for each in exported:
            builder.export_symbol(each)
        self._tracker = builder.link(_linker(), name)
        self.addresses: dict[str, int] = {each: self._tracker[each] for each in exported}
