"""Options of the simulated driver, from text (``GRAPHROOT_SIMULATOR``) and from keyword arguments alike."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drv.host.processors import processor_count

from .device_models import MODELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .device_models import DeviceModel

SCHEDULES = ("eager", "lazy", "random")
CHECKS = ("off", "on", "race", "full")
SAME_VALUES = ("ignore", "report")
NATIVE = ("auto", "on", "off")
#: Names that an option text or a keyword may have, with their defaults.
DEFAULTS: dict[str, str] = {
    "devices": "1",
    "model": "none",
    "memory": "2GiB",
    "capability": "9.0",
    "multiprocessors": "132",
    "peers": "all",
    "schedule": "eager",
    "seed": "0",
    "check": "on",
    "same_values": "ignore",
    "execute": "on",
    "native": "auto",
    "cores": "1",
    "cudnn": "off",
}
_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{suffix}": base**power
    for power, prefix in enumerate("KMGT", start=1)
    for suffix, base in (("iB", 1024), ("B", 1000))
}
_MAX_DEVICES = 64
_MAX_CORES = 1024


class OptionError(ValueError):
    """An option that does not exist or a value that it cannot have; the message quotes it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a simulated machine is and how it behaves. Tuples have one item per device.

    ``model`` is what a device stands for, if anything; ``memory`` is in bytes; ``peers`` holds ordered pairs ``(accessor, owner)`` of devices between which
    peer access can be enabled; ``check`` and ``schedule`` are words of ``CHECKS`` and ``SCHEDULES``; ``same_values`` says whether several threads that store one value to an
    address are reported; ``cores`` is how many of the host's cores native code may use for one grid; ``cudnn`` is whether cuDNN is there.
    """

    devices: int
    model: tuple[DeviceModel | None, ...]
    memory: tuple[int, ...]
    capability: tuple[tuple[int, int], ...]
    multiprocessors: tuple[int, ...]
    peers: frozenset[tuple[int, int]]
    schedule: str
    seed: int
    check: str
    same_values: bool
    execute: bool
    native: str
    cores: int
    cudnn: bool


def parse_options(text: str = "", **keywords: Any) -> Options:
    """Options from ``name=value,name=value`` and keywords, which win over the text.

    A keyword's value may be what the text would hold (``memory="2GiB/1GiB"``) or the natural Python value:
    an int, a float or pair for a capability, a bool for ``execute`` and ``cudnn``, a sequence with one item per device,
    a sequence of pairs for ``peers``. A model says what its capability, multiprocessors and memory are, where these are not
    given. Raises :class:`OptionError` that quotes the offending part.
    """
    settings: dict[str, Any] = {}
    for setting in filter(None, (setting.strip() for setting in text.split(","))):
        name, equals, value = (piece.strip() for piece in setting.partition("="))
        if not equals:
            raise OptionError(f"simulator option {setting!r}: expected name=value")
        settings[_known(name, setting)] = value
    for name, value in keywords.items():
        settings[_known(name, f"{name}={value!r}")] = value

    values = DEFAULTS | settings
    devices = _integer("devices", values["devices"], 0, _MAX_DEVICES)
    models = _per_device("model", values["model"], devices, _model)
    for name in ("memory", "capability", "multiprocessors"):
        if name not in settings:
            values[name] = [
                DEFAULTS[name] if model is None else getattr(model, name) for model in models
            ] or DEFAULTS[name]
    return Options(
        devices=devices,
        model=models,
        memory=_per_device("memory", values["memory"], devices, _bytes),
        capability=_per_device("capability", values["capability"], devices, _capability),
        multiprocessors=_per_device(
            "multiprocessors",
            values["multiprocessors"],
            devices,
            lambda name, value: _integer(name, value, 1, 1024),
        ),
        peers=_peers(values["peers"], devices),
        schedule=_word("schedule", values["schedule"], SCHEDULES),
        seed=_integer("seed", values["seed"], 0, 2**63),
        check=_word("check", values["check"], CHECKS),
        same_values=_word("same_values", values["same_values"], SAME_VALUES) == "report",
        execute=_switch("execute", values["execute"]),
        native=_word("native", values["native"], NATIVE),
        cores=_cores("cores", values["cores"]),
        cudnn=_switch("cudnn", values["cudnn"]),
    )


def _known(name: str, setting: str) -> str:
    if name not in DEFAULTS:
        raise OptionError(
            f"simulator option {setting!r}: there is no option {name!r}; there are {', '.join(DEFAULTS)}"
        )
    return name


def _integer(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d+", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"simulator option {name}={value!r}: expected a whole number from {low} to {high}")
    return value


def _cores(name: str, value: Any) -> int:
    return processor_count() if value == "all" else _integer(name, value, 1, _MAX_CORES)


def _word(name: str, value: Any, words: Iterable[str]) -> str:
    if value not in words:
        raise OptionError(f"simulator option {name}={value!r}: expected one of {', '.join(words)}")
    return str(value)


def _model(name: str, value: Any) -> DeviceModel | None:
    word = _word(name, value.lower() if isinstance(value, str) else value, (*MODELS, "none"))
    return MODELS.get(word)


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _word(name, value, ("on", "off")) == "on"


def _bytes(name: str, value: Any) -> int:
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value)
        unit = next((u for u in _UNITS if match and u.lower() == match[2].lower()), None)
        if match is None or unit is None:
            raise OptionError(
                f"simulator option {name}={value!r}: expected a number of bytes such as 2GiB, 512MiB or 1000000"
            )
        value = int(float(match[1]) * _UNITS[unit]) if "." in match[1] else int(match[1]) * _UNITS[unit]
    return _integer(name, value, 1, 2**42)


def _is_pair(name: str, value: tuple[Any, ...]) -> bool:
    """Whether a tuple is one capability, not one per device."""
    return name == "capability" and len(value) == 2 and all(isinstance(number, int) for number in value)


def _capability(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, tuple) and _is_pair(name, value):
        return value[0], value[1]
    match = re.fullmatch(r"(\d{1,2})\.(\d)", str(value))
    if match is None:
        raise OptionError(f"simulator option {name}={value!r}: expected a compute capability such as 9.0")
    return int(match[1]), int(match[2])


def _per_device(name: str, value: Any, devices: int, parse: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    if isinstance(value, str):
        items: list[Any] = [item.strip() for item in value.split("/")]
    elif isinstance(value, list) or (isinstance(value, tuple) and not _is_pair(name, value)):
        items = list(value)
    else:
        items = [value]
    parsed = [parse(name, item) for item in items]
    if len(parsed) == 1:
        return tuple(parsed * devices)
    if len(parsed) != devices:
        raise OptionError(
            f"simulator option {name}={value!r}: has {len(parsed)} values for {devices} devices; "
            "expected one, or one per device"
        )
    return tuple(parsed)


def _peers(value: Any, devices: int) -> frozenset[tuple[int, int]]:
    if value == "all":
        return frozenset((a, b) for a in range(devices) for b in range(devices) if a != b)
    if value in ("none", ""):
        return frozenset()
    items = value.split("/") if isinstance(value, str) else list(value)
    pairs = set()
    for item in items:
        if isinstance(item, str):
            match = re.fullmatch(r"\s*(\d+)-(\d+)\s*", item)
            pair = (int(match[1]), int(match[2])) if match else None
        else:
            pair = tuple(item)
        if pair is None or len(pair) != 2 or pair[0] == pair[1]:
            raise OptionError(
                f"simulator option peers={value!r}: {item!r} is not all, none or a pair of devices such as 0-1"
            )
        if not all(0 <= ordinal < devices for ordinal in pair):
            raise OptionError(
                f"simulator option peers={value!r}: {item!r} names a device that is not there "
                f"(devices={devices})"
            )
        pairs.add(pair)
    return frozenset(pairs)


def visible_devices(environment: Mapping[str, str], uuids: list[str]) -> list[int]:
    """Physical devices in the order that ``CUDA_VISIBLE_DEVICES`` gives them.

    As CUDA does: entries are ordinals or unambiguous beginnings of ``GPU-`` UUIDs; the list ends before the
    first entry that names no device; a device named twice leaves none; unset means all.
    """
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in (entry.strip() for entry in text.split(",")):
        if entry.startswith("GPU-"):
            matching = [i for i, uuid in enumerate(uuids) if uuid.lower().startswith(entry.lower())]
            ordinal = matching[0] if len(matching) == 1 else -1
        else:
            match = re.match(r"[+-]?\d+", entry)
            ordinal = int(match[0]) if match else -1
        if not 0 <= ordinal < len(uuids):
            break
        if ordinal in chosen:
            return []
        chosen.append(ordinal)
    return chosen
