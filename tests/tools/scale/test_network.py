"""Networks: the terms of collectives, where ranks are, and figures that are none."""

from __future__ import annotations

import pytest

from tools.scale.network import NETWORKS, Layout, Network, collective_seconds

_NETWORK = Network("test", 4, 100.0, 10.0, 0.25, 1.0, 0.5)


@pytest.mark.parametrize(
    ("operation", "nodes", "on_each", "expected"),
    [
        # Inside a node: three messages around a ring, or a tree of three; 3/4 of the bytes at 50 a second.
        ("all_gather", 1, 4, 3 * 0.25 + 0.75 * 400 / 50),
        ("all_reduce", 1, 4, 2 * (3 * 0.25 + 0.75 * 400 / 50)),
        # Four rails of 10 carry what a ring would: 20 a second of 40.
        ("reduce_scatter", 2, 4, 6 * 0.25 + 2 * 1.0 + 7 / 8 * 400 / 20),
        ("all_reduce", 8, 4, 2 * (3 * 0.25 + 3 * 1.0 + 31 / 32 * 400 / 20)),
        # One of each node has one rail.
        ("all_reduce", 2, 1, 2 * (1.0 + 0.5 * 400 / 5)),
        ("broadcast", 2, 4, 3 * 0.25 + 1.0 + 400 / 20),
        ("send", 2, 1, 1.0 + 400 / 5),
        ("send", 1, 2, 0.25 + 400 / 50),
        ("all_reduce", 1, 1, 0.0),
    ],
)
def test_terms(operation: str, nodes: int, on_each: int, expected: float) -> None:
    assert collective_seconds(operation, 400, Layout(nodes, on_each), _NETWORK) == pytest.approx(expected)


def test_many_rails_are_no_quicker_than_links() -> None:
    network = Network("test", 4, 30.0, 10.0, 0.0, 0.0, 1.0)
    # Four rails of 10 could carry 40, links inside the nodes 30.
    assert collective_seconds("broadcast", 300, Layout(2, 4), network) == pytest.approx(10.0)


def test_where_ranks_are() -> None:
    assert Layout.of(list(range(4)), _NETWORK) == Layout(1, 4)
    assert Layout.of(list(range(16)), _NETWORK) == Layout(4, 4)
    assert Layout.of([1, 5, 9], _NETWORK) == Layout(3, 1)
    with pytest.raises(ValueError, match="5 ranks on 2 nodes of 4"):
        Layout.of(list(range(5)), _NETWORK)


def test_figures() -> None:
    network = Network.parse("dgx-a100,rail=12.5e9,devices=4")
    assert (network.rail, network.devices, network.link) == (12.5e9, 4, NETWORKS["dgx-a100"].link)
    for text, words in [
        ("dgx", "no network 'dgx': expected dgx-1, dgx-a100"),
        ("p4d,speed=3", "has no 'speed': expected devices"),
        ("p4d,rail=fast", "rail of a network is a number, got 'fast'"),
        ("p4d,rail=0", "rail of a network is positive, got 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            Network.parse(text)
