from __future__ import annotations

from typing import Any

import pytest
from cuda.bindings.driver import CUdevice_attribute

from drv.simulator.device_models import MODELS
from drv.simulator.options import OptionError, parse_options, visible_devices

from .machine import Machine

GIB = 1 << 30


def test_defaults_are_those_of_the_design() -> None:
    options = parse_options()
    assert options.devices == 1
    assert options.memory == (2 * GIB,)
    assert options.capability == ((9, 0),)
    assert options.multiprocessors == (132,)
    assert (options.schedule, options.seed, options.check, options.execute) == ("eager", 0, "on", True)
    assert options.peers == frozenset()


def test_text_and_keywords_say_the_same() -> None:
    text = parse_options(
        "devices=2, memory=2GiB/512MiB,capability=9.0/8.6,multiprocessors=132/80,peers=0-1,"
        "schedule=lazy,seed=7,check=race,same_values=report,execute=off,cudnn=on"
    )
    keywords = parse_options(
        devices=2,
        memory=(2 * GIB, "512MiB"),
        capability=((9, 0), 8.6),
        multiprocessors=[132, 80],
        peers=[(0, 1)],
        schedule="lazy",
        seed=7,
        check="race",
        same_values="report",
        execute=False,
        cudnn=True,
    )
    assert text == keywords
    assert text.cudnn
    assert not parse_options().cudnn
    assert text.same_values
    assert not parse_options().same_values
    assert text.capability == ((9, 0), (8, 6))
    assert text.peers == {(0, 1)}


def test_a_model_says_what_is_not_given() -> None:
    options = parse_options("devices=3,model=h200/T4/none,multiprocessors=7")
    assert options.memory == (141 * 10**9, 16 * GIB, 2 * GIB)
    assert options.capability == ((9, 0), (7, 5), (9, 0))
    assert options.multiprocessors == (7, 7, 7)
    assert parse_options(model="a100", memory="1GiB").memory == (GIB,)
    assert parse_options("devices=0,model=l4").memory == ()
    with pytest.raises(
        OptionError,
        match="model='h20': expected one of h200, h100, a100, v100, v100-32gb, l4, t4, rtx4090, none",
    ):
        parse_options("model=h20")


@pytest.mark.parametrize("model", MODELS)
def test_models_are_told_by_their_attributes(model: str) -> None:
    machine = Machine(model=model)
    described = MODELS[model]

    def attribute(name: str) -> int:
        return machine.cuDeviceGetAttribute(getattr(CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), 0)

    assert machine.cuDeviceGetName(100, 0).rstrip(b"\0").decode() == f"{described.name} (simulated)"
    assert attribute("MULTIPROCESSOR_COUNT") == described.multiprocessors
    assert attribute("COMPUTE_CAPABILITY_MAJOR") == described.capability[0]
    assert attribute("L2_CACHE_SIZE") == described.l2_bytes
    assert int(machine.cuDeviceTotalMem(0)) == described.memory
    # The bandwidth as programs compute it.
    rate = 2 * attribute("MEMORY_CLOCK_RATE") * 1000 * attribute("GLOBAL_MEMORY_BUS_WIDTH") // 8
    assert rate == pytest.approx(described.bandwidth, rel=1e-3)


def test_a_v100_has_its_own_multiprocessors_and_runs_code_of_the_next_capability() -> None:
    def attributes(**options: Any) -> list[int]:
        names = "COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MAX_THREADS_PER_MULTIPROCESSOR"
        machine = Machine(**options)
        return [
            machine.cuDeviceGetAttribute(getattr(CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"), 0)
            for name in names
        ]

    assert attributes(model="v100") == attributes(model="v100-32gb") == [7, 5, 2048]
    assert attributes(model="t4") == [7, 5, 1024]
    # Of another capability it has what that has.
    assert attributes(model="v100", capability="8.6") == [8, 6, 1536]


def test_keywords_win_over_text() -> None:
    assert parse_options("devices=2,seed=3", devices=4).devices == 4


def test_peers_all_are_all_ordered_pairs() -> None:
    assert parse_options("devices=3").peers == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1000", 1000),
        ("1kb", 1000),
        ("1KiB", 1024),
        ("1.5GiB", 3 << 29),
        ("3 MiB", 3 << 20),
        ("2TiB", 2 << 40),
    ],
)
def test_memory_units(text: str, nbytes: int) -> None:
    assert parse_options(f"memory={text}").memory == (nbytes,)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("devices", "'devices'"),
        ("device=2", "'device'"),
        ("devices=two", "'two'"),
        ("devices=-1", "'-1'"),
        ("memory=2XB", "'2XB'"),
        ("memory=0", "memory=0"),
        ("devices=2,memory=1GiB/1GiB/1GiB", "3 values for 2 devices"),
        ("capability=nine", "'nine'"),
        ("multiprocessors=0", "multiprocessors=0"),
        ("schedule=never", "'never'"),
        ("check=maybe", "'maybe'"),
        ("execute=yes", "'yes'"),
        ("cudnn=9", "'9'"),
        ("seed=x", "'x'"),
        ("devices=2,peers=0:1", "'0:1'"),
        ("devices=2,peers=0-2", "'0-2'"),
        ("devices=2,peers=1-1", "'1-1'"),
    ],
)
def test_errors_quote_the_offending_part(text: str, quoted: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(text)
    assert quoted in str(caught.value)


def test_unknown_keyword_is_named() -> None:
    with pytest.raises(OptionError, match="'speed'"):
        parse_options(speed=3)


UUIDS = ["GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"]


@pytest.mark.parametrize(
    ("variable", "chosen"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        ("0,7,1", [0]),
        ("0,-1,1", [0]),
        ("nonsense", []),
        ("1,1", []),
        ("GPU-cccc", [2]),
        ("GPU-aa,0", []),
        ("GPU-AABB,0", [1, 0]),
        (" 2 , 1 ", [2, 1]),
    ],
)
def test_visible_devices_as_cuda_reads_them(variable: str | None, chosen: list[int]) -> None:
    environment = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    assert visible_devices(environment, UUIDS) == chosen
