"""What the launcher that serves a rendezvous decides, without nodes, clocks or connections."""

from __future__ import annotations

from typing import Any

import pytest

from parallel.launch.coordinator import Coordinator, Rules


class Job:
    """A coordinator at a time, whose orders are read by node."""

    def __init__(self, **rules: Any) -> None:
        self.told: list[str] = []
        self.coordinator = Coordinator(
            Rules(**{"least": 1, "most": 3, **rules}),
            "host.example",
            "a",
            lambda: 1234,
            self.told.append,
            0.0,
        )
        self.time = 0.0

    def say(self, node: str, event: str, **details: Any) -> None:
        if event == "join":
            details = {"name": f"node {node}", "processes": 2, "rank": None, **details}
        self.coordinator.take({"node": node, "event": event, **details}, self.time)

    def wait(self, seconds: float, *alive: str) -> None:
        """Let time pass, in which the nodes ``alive`` are heard."""
        self.time += seconds
        for node in alive:
            self.say(node, "alive")
        self.coordinator.pass_time(self.time)

    def orders(self) -> dict[str, dict[str, Any]]:
        orders = self.coordinator.orders
        result = dict(orders)
        assert len(result) == len(orders), orders
        orders.clear()
        return result

    def started(self) -> dict[str, tuple[int, int, int, int]]:
        """By node: its number, that of nodes, its first rank, and the world size."""
        result = {}
        for node, order in self.orders().items():
            assert order["order"] == "start", order
            start = order["round"]
            assert (start["address"], start["port"]) == ("host.example", 1234)
            result[node] = start["node"], start["nodes"], start["first_rank"], start["world_size"]
        return result


def running(*nodes: str, **rules: Any) -> Job:
    """A job in its first round."""
    job = Job(**{"most": len(nodes), **rules})
    for node in nodes:
        job.say(node, "join")
    job.wait(30, *nodes)
    assert job.started().keys() == set(nodes)
    return job


def kinds(orders: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {node: order["order"] for node, order in orders.items()}


def test_a_round_begins_when_all_are_there_or_the_last_call_is_over() -> None:
    job = Job(least=2, most=3)
    job.say("b", "join", processes=1)
    assert job.orders() == {}
    job.say("a", "join")
    job.wait(10, "a", "b")
    assert job.orders() == {}
    job.wait(5, "b")
    job.wait(10, "a", "b")
    job.wait(5, "a")
    # The node that serves is the first, however late it came.
    assert job.started() == {"a": (0, 2, 0, 3), "b": (1, 2, 2, 3)}
    job = Job(least=2, most=3)
    for node in "cab":
        job.say(node, "join")
    assert job.started() == {"a": (0, 3, 0, 6), "c": (1, 3, 2, 6), "b": (2, 3, 4, 6)}


def test_numbers_of_nodes_that_are_set_by_hand() -> None:
    job = Job(least=3, most=3)
    for node, rank in (("c", 2), ("b", 1), ("a", 0)):
        job.say(node, "join", rank=rank)
    assert job.started() == {"a": (0, 3, 0, 6), "b": (1, 3, 2, 6), "c": (2, 3, 4, 6)}
    job.say("d", "join", rank=1)
    orders = job.orders()
    assert kinds(orders) == dict.fromkeys("abc", "end")
    assert "another launcher has come with --node-rank 1" in orders["b"]["reason"]
    assert orders["a"]["reason"].endswith("--node-rank 1, and --max-restarts is 0")


def test_too_few_nodes() -> None:
    job = Job(least=2, join_timeout=60.0)
    for _ in range(5):
        job.say("a", "join") if not job.coordinator.nodes else job.wait(14, "a")
    assert job.orders() == {}
    assert job.coordinator.due() == 60
    job.wait(4, "a")
    assert job.orders() == {
        "a": {"order": "end", "status": 1, "reason": "1 of at least 2 nodes have come within 60 s"}
    }


def test_a_failure_restarts_all_and_is_counted_once() -> None:
    job = running("a", "b", "c", max_restarts=1)
    job.say("b", "failed", reason="rank 3 failed with exit code 7", status=7)
    assert kinds(job.orders()) == {"a": "stop", "c": "stop"}
    job.say("a", "failed", reason="rank 0 failed with exit code 1", status=1)
    assert job.orders() == {}
    job.say("c", "stopped")
    orders = job.orders()
    assert kinds(orders) == dict.fromkeys("abc", "start")
    assert orders["c"]["round"]["restarts"] == orders["c"]["round"]["number"] == 1
    assert orders["c"]["reason"] == "rank 3 failed with exit code 7 on node b; restart 1 of 1"
    job.say("c", "failed", reason="rank 4 failed with exit code 3", status=3)
    orders = job.orders()
    assert kinds(orders) == dict.fromkeys("abc", "end")
    assert orders["a"]["status"] == 3
    assert "restarted once already, as often as --max-restarts allows" in orders["a"]["reason"]


def test_all_have_succeeded() -> None:
    job = running("a", "b")
    job.say("b", "succeeded")
    assert job.orders() == {}
    job.say("a", "succeeded")
    assert job.orders() == {node: {"order": "end", "status": 0, "reason": ""} for node in "ab"}
    assert job.coordinator.over
    job.say("a", "leave", reason="has ended")
    job.wait(14, "b")
    assert job.coordinator.nodes.keys() == {"b"}
    job.wait(15)
    assert not job.coordinator.nodes


def test_a_node_that_has_succeeded_is_restarted_with_one_that_has_not() -> None:
    job = running("a", "b", max_restarts=1)
    job.say("b", "succeeded")
    job.say("a", "failed", reason="rank 0 failed", status=1)
    assert job.started() == {"a": (0, 2, 0, 4), "b": (1, 2, 2, 4)}


@pytest.mark.parametrize("how", ["lost", "left"])
def test_without_a_node_the_others_go_on(how: str) -> None:
    job = running("a", "b", "c", max_restarts=2, least=2)
    if how == "lost":
        job.wait(10, "a", "c")
        job.wait(5, "a", "c")
    else:
        job.say("b", "leave", reason="has received SIGTERM")
    assert kinds(job.orders()) == {"a": "stop", "c": "stop"}
    job.say("a", "stopped")
    job.say("c", "failed", reason="rank 5 failed", status=1)
    assert job.started() == {"a": (0, 2, 0, 4), "c": (1, 2, 2, 4)}
    assert job.coordinator.restarts == 1
    # What was lost cannot take part as if nothing had been.
    job.say("b", "alive")
    assert kinds(job.orders()) == ({"b": "end"})
    # Below the least number of nodes the others wait.
    job.say("c", "leave", reason="has received SIGTERM")
    job.orders()
    job.say("a", "stopped")
    assert job.orders() == {}
    assert job.told == [
        "node c has received SIGTERM; restart 2 of 2; waiting for nodes: 1 of at least 2 are there"
    ]
    job.say("d", "join")
    assert job.started() == {"a": (0, 2, 0, 4), "d": (1, 2, 2, 4)}


def test_a_node_that_comes_makes_the_group_larger_and_a_surplus_one_waits() -> None:
    job = running("a", "b", most=3)
    job.say("c", "join")
    assert kinds(job.orders()) == {"a": "stop", "b": "stop"}
    job.say("a", "stopped")
    job.say("d", "join")
    job.say("b", "stopped")
    assert job.started() == {"a": (0, 3, 0, 6), "b": (1, 3, 2, 6), "c": (2, 3, 4, 6)}
    assert (job.coordinator.rounds, job.coordinator.restarts) == (2, 0)
    job.coordinator.rules = Rules(1, 3, max_restarts=1)
    job.say("b", "leave", reason="has received SIGTERM")
    job.orders()
    job.say("a", "stopped")
    job.say("c", "stopped")
    assert job.started() == {"a": (0, 3, 0, 6), "c": (1, 3, 2, 6), "d": (2, 3, 4, 6)}


def test_a_node_that_comes_when_a_part_of_the_job_has_ended_changes_nothing() -> None:
    job = running("a", "b", most=3)
    job.say("a", "succeeded")
    job.say("c", "join")
    assert job.orders() == {}
    job.say("b", "succeeded")
    assert kinds(job.orders()) == dict.fromkeys("abc", "end")
    job.say("d", "join")
    assert job.orders()["d"]["reason"] == "the job is over"


def test_without_the_node_that_serves_there_is_no_rendezvous() -> None:
    job = running("a", "b", max_restarts=5)
    job.say("a", "leave", reason="has received SIGINT")
    orders = job.orders()
    assert kinds(orders) == {"b": "end"}
    assert orders["b"]["reason"] == "the node that serves the rendezvous is gone: node a has received SIGINT"
