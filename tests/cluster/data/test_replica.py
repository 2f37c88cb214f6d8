"""The data service in small worlds: who answers, what waits, and what a failing or unsupported query costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.layer import QueryAnswered
from cluster.settings import Settings
from cluster.sim.data.run import DataSpecifications, make_data_process
from cluster.sim.history_machine import History
from cluster.sim.run import RunJudge
from cluster.sim.world import World

if TYPE_CHECKING:
    import pytest

    from cluster.data.replica import DataReplica
    from cluster.layer import Delivered
    from cluster.sim.node import SimNode
    from cluster.stack import Process


class Answers:
    """Collects the answers at all nodes."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int, str]] = []  # node, index, error

    def accepted(self, node: SimNode, body: bytes, ticket: int) -> None: ...

    def ended(self, node: SimNode, end: Delivered | QueryAnswered) -> None:
        if isinstance(end, QueryAnswered):
            self.found.append((node.name, end.index, end.error))

    def crashed(self, node: SimNode) -> None: ...


def data(world: World, name: str) -> DataReplica:
    found = cast("Process", world.nodes[name].process).data
    assert found is not None
    return found


def world_of(names: str, *, is_judged: bool = True, sharing: str = "round robin") -> tuple[World, Answers]:
    judge = DataSpecifications(names[0]) if is_judged else RunJudge()
    world = World(make_data_process, settings=Settings(query_sharing=sharing), watcher=judge)
    judge.watch(world)
    world.start(names).settle()
    answers = Answers()
    for node in world.nodes.values():
        node.clients = answers
    return world, answers


def executed(world: World) -> list[int]:
    return [data(world, name).executed for name in world.nodes]


def test_queries_go_round() -> None:
    world, answers = world_of("abc")
    for number in range(30):
        world.query("abc"[number % 2], b"%d" % number)
    world.settle()
    assert executed(world) == [10, 10, 10]
    assert len(answers.found) == 30


def test_the_least_loaded_member_answers() -> None:
    world, answers = world_of("abc", sharing="least loaded")
    world.nodes["b"].input_cost = 0.02  # every input, and so every query, takes b twenty milliseconds
    for number in range(300):
        world.query("a", b"%d" % number).run(0.002)
    world.settle()
    assert len(answers.found) == 300
    slow, fast = data(world, "b").executed, data(world, "c").executed
    assert 0 < slow < fast / 2, executed(world)


def test_a_query_waits_for_what_its_client_has_seen() -> None:
    world, answers = world_of("abcde")
    world.partition("abc", "de").settle()
    world.broadcast("a", b"x").settle()
    seen = world.position("a")
    world.query("e", b"q", seen=seen).settle()
    assert answers.found == []
    world.heal().settle()
    assert [(node, index >= seen) for node, index, _ in answers.found] == [("e", True)]


def test_a_query_without_an_able_member_can_be_withdrawn() -> None:
    world, answers = world_of("abc")
    world.query("a", b"q", seen=10**6).settle()
    service = data(world, "a")
    (ticket,) = service.map
    assert service.withdraw(ticket)
    assert not service.withdraw(ticket)
    assert not service.map
    assert answers.found == []


def test_an_error_in_a_query_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: History, body: bytes) -> bytes:
        raise ValueError(f"not a query: {body.decode()}")

    monkeypatch.setattr(History, "query", fail)
    world, answers = world_of("abc", is_judged=False)
    for name in "abc":
        world.query(name, b"x").settle()
    assert [error for _, _, error in answers.found] == ["ValueError: not a query: x"] * 3


def test_a_member_without_the_service_does_not_stop_the_others() -> None:
    world, answers = world_of("abc", is_judged=False)
    for name in "ab":
        data(world, name).incapable.add(world.nodes["c"].pid)
    world.crash("c").settle()
    world.restart("c").settle()
    world.query("a", b"q").query("b", b"r").settle()
    assert sorted(node for node, _, _ in answers.found) == ["a", "b"]
    assert (data(world, "a").executed, data(world, "b").executed) == (1, 1)
