"""The data service with real processes: kill -9 of members that have to answer, and queries in a minority."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.cluster.runtime.members import Cluster, Member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long


class QueryCluster(Cluster):
    """Members with `--queries` and a disk, and clients that tell each other what they have seen."""

    def __init__(self, folder: Path, *, network: NamespaceNetwork | None = None) -> None:
        super().__init__(folder, durable=True, network=network)
        self.seen = 0  # the latest state that a client has seen
        self.asked = 0
        self.seen_before: dict[str, int] = {}  # last(c) of the client of each query

    def _spawn(self, name: str, *more: str, before: tuple[str, ...] = ()) -> Member:
        return super()._spawn(name, "--queries", *more, before=before)

    def ask(self, name: str) -> str:
        """Begin a query of a client that has seen the latest state. Returns its text."""
        self.asked += 1
        self.members[name].say(f".ask {self.seen} {self.asked}")
        self.seen_before[str(self.asked)] = self.seen
        return str(self.asked)

    def answer(self, name: str, text: str) -> dict[str, Any]:
        """Wait for the answer to a query."""
        found = wait_for(lambda: self._answers(name, text), f"{name} has the answer to query {text}")
        assert len(found) == 1
        assert found[0]["index"] >= self.seen_before[text]
        self.seen = max(self.seen, found[0]["index"])
        return found[0]

    def _answers(self, name: str, text: str) -> list[dict[str, Any]]:
        return [event for event in self.members[name].events if event["event"] == "answered" and event["query"] == text]

    def update(self, name: str, text: str) -> None:
        self.members[name].say(text)
        wait_for(lambda: self.members[name].confirmed(text), f"{name} has confirmed {text}")

    def wait_for_count(self, names: str, count: int) -> None:
        """Wait until these members have applied so many updates: a query may be answered by any of them."""
        wait_for(
            lambda: all(self.members[name].status.get("count") == count for name in names),
            f"{names} have applied {count} updates",
        )


def test_queries_survive_the_members_that_have_to_answer_them(tmp_path: Path) -> None:
    cluster = QueryCluster(tmp_path)
    with cluster:
        cluster.begin("abc")
        cluster.update("a", "one")
        cluster.wait_for_count("abc", 1)
        assert cluster.answer("b", cluster.ask("b"))["answer"] == "1"
        for victim in "bc":
            texts = [cluster.ask("a") for _ in range(12)]
            cluster.members[victim].kill()  # a third of them is for this member
            assert {cluster.answer("a", text)["answer"] for text in texts} <= {"1", "2"}
            cluster.update("a", f"without {victim}")
            cluster.start(victim)
            cluster.wait_for_primary("abc")
            count = int(cluster.answer("a", cluster.ask("a"))["answer"])
            assert int(cluster.answer(victim, cluster.ask(victim))["answer"]) >= count
        cluster.quiet().stop().judge()


def test_queries_in_a_minority(tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            network = stack.enter_context(NamespaceNetwork("abcde"))
        except NamespacesUnavailable as reason:
            pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
        cluster = QueryCluster(tmp_path, network=network)
        stack.enter_context(cluster)
        cluster.begin("abcde")
        cluster.update("a", "before")
        cluster.wait_for_count("abcde", 1)
        assert cluster.answer("d", cluster.ask("d"))["answer"] == "1"
        network.part("abc", "de")
        cluster.wait_for_primary("abc")
        wait_for(lambda: cluster.members["e"].primary is None, "e knows that it is in a minority")
        for name in "dede":
            assert cluster.answer(name, cluster.ask(name))["answer"] == "1"
        cluster.members["d"].say("in the minority")
        cluster.update("b", "in the majority")
        cluster.wait_for_count("abc", 2)
        assert cluster.answer("b", cluster.ask("b"))["answer"] == "2"
        waiting = cluster.ask("e")  # its client has seen the update of the majority
        assert not cluster.members["d"].confirmed("in the minority")
        network.heal()
        assert int(cluster.answer("e", waiting)["answer"]) >= 2
        wait_for(lambda: cluster.members["d"].confirmed("in the minority"), "the update of the minority")
        cluster.quiet().stop().judge()
