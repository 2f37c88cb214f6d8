"""Reports with real processes: a member that is stopped, one that is killed, and a partition with namespaces."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.cluster.runtime.members import Cluster, Member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long


class ReportsCluster(Cluster):
    """Members with `--reports`."""

    def _spawn(self, name: str, *more: str, before: tuple[str, ...] = ()) -> Member:
        return super()._spawn(name, "--reports", *more, before=before)

    def seen(self, at: str, sender: str, item: str) -> str:
        return str(self.members[at].status.get("reports", {}).get(sender, {}).get(item, ""))

    def publish(self, sender: str, item: str, value: str) -> None:
        self.members[sender].say(f".publish {item} {value}")

    def wait_for_value(self, names: str, sender: str, item: str, value: str) -> None:
        wait_for(
            lambda: all(self.seen(name, sender, item) == value for name in names),
            f"{names} have {item} = {value} of {sender}",
            60.0,
        )

    def count(self, at: str, sender: str) -> int:
        return int(self.seen(at, sender, "count") or 0)

    def wait_for_progress(self, at: str, sender: str, count: int = 50) -> None:
        before = self.count(at, sender)
        wait_for(lambda: self.count(at, sender) >= before + count, f"{at} gets {count} more values of {sender}", 60.0)


def test_a_member_that_is_stopped_and_one_that_is_killed(tmp_path: Path) -> None:
    cluster = ReportsCluster(tmp_path)
    with cluster:
        cluster.begin("abc")
        cluster.publish("c", "colour", "green")
        cluster.wait_for_value("abc", "c", "colour", "green")
        for name in "ab":
            cluster.members[name].say(".count 0.002")
        cluster.wait_for_progress("c", "a")
        cluster.members["c"].signal(signal.SIGSTOP)
        cluster.wait_for_progress("a", "b")
        cluster.wait_for_progress("b", "a")
        cluster.wait_for_primary("ab")
        cluster.wait_for_progress("a", "b")
        cluster.members["c"].signal(signal.SIGCONT)
        cluster.wait_for_primary("abc")
        newest = cluster.count("a", "b")
        wait_for(lambda: cluster.count("c", "b") >= newest, "c has what it missed", 60.0)
        cluster.members["b"].kill()
        cluster.wait_for_primary("ac")
        wait_for(lambda: cluster.count("a", "b") == cluster.count("c", "b") > 0, "a and c agree on the last value of b")
        cluster.wait_for_progress("c", "a")
        cluster.start("b")
        cluster.wait_for_primary("abc")
        cluster.wait_for_value("b", "c", "colour", "green")
        cluster.stop().judge()


def test_both_sides_of_a_partition_go_on(tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            network = stack.enter_context(NamespaceNetwork("abc"))
        except NamespacesUnavailable as reason:
            pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
        cluster = ReportsCluster(tmp_path, network=network)
        stack.enter_context(cluster)
        cluster.begin("abc")
        for name in "abc":
            cluster.publish(name, "x", "before")
        for name in "abc":
            cluster.wait_for_value("abc", name, "x", "before")
        network.part("ab", "c")
        cluster.wait_for_primary("ab")
        for name in "abc":
            cluster.publish(name, "x", "apart")
        cluster.wait_for_value("ab", "a", "x", "apart")
        cluster.wait_for_value("ab", "b", "x", "apart")
        cluster.wait_for_value("c", "c", "x", "apart")
        network.heal()
        cluster.wait_for_primary("abc")
        for name in "abc":
            cluster.wait_for_value("abc", name, "x", "apart")
        cluster.stop().judge()
