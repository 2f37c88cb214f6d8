"""The interim service with real processes: kill -9 during a merge, restarts, and partitions with namespaces."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.cluster.runtime.members import Cluster, Member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

MANY = 60_000  # notes: a state of several megabytes, so that a merge takes a while
LONG = "x" * 50


class NotesCluster(Cluster):
    """Members with `--notes` and a disk."""

    def __init__(self, folder: Path, *, network: NamespaceNetwork | None = None) -> None:
        super().__init__(folder, durable=True, network=network)

    def _spawn(self, name: str, *more: str, before: tuple[str, ...] = ()) -> Member:
        return super()._spawn(name, "--notes", *more, before=before)

    def note(self, name: str, text: str) -> None:
        """Add a note and wait for the response."""
        member = self.members[name]
        member.say(f".note {text}")
        wait_for(
            lambda: any(event["event"] == "noted" and event["note"] == text for event in member.events),
            f"{name} has noted {text[:20]}",
        )

    def wait_for_common_state(self, names: str) -> str:
        """Wait until these members have the common state of a view of exactly them. Returns its digest."""

        def common() -> str:
            statuses = [self.members[name].status for name in names]
            is_common = (
                all(status.get("notes_members") == sorted(names) and not status["merging"] for status in statuses)
                and len({status["notes_digest"] for status in statuses}) == 1
            )
            return str(statuses[0]["notes_digest"]) if is_common else ""

        return wait_for(common, f"a common state of {names}")

    def wait_for_merge(self, name: str) -> None:
        """Wait until the member, just started, waits for the states of others."""
        member = self.members[name]
        wait_for(lambda: any(e["event"] == "merge" and e["begins"] for e in member.events), f"{name} merges")

    def judge_notes(self, expected: int) -> None:
        for member in self.members.values():
            assert member.status["notes"] == expected, (member.name, member.status)


def test_kill_during_a_merge_and_restart(tmp_path: Path) -> None:
    cluster = NotesCluster(tmp_path)
    with cluster:
        cluster.begin("abc")
        cluster.wait_for_common_state("abc")
        cluster.note("a", f"*{MANY} {LONG}")
        cluster.note("c", "of c")
        cluster.wait_for_common_state("abc")
        for victim, others in (("a", "bc"), ("b", "ac"), ("c", "ab")):
            cluster.members["c"].kill()
            cluster.wait_for_common_state("ab")
            cluster.note("b", f"without c, then {victim} dies")
            cluster.start("c")
            cluster.wait_for_merge("c")
            cluster.members[victim].kill()  # the sender of the state, its companion, or the newcomer itself
            cluster.wait_for_common_state(others)
            cluster.start(victim)
            cluster.wait_for_common_state("abc")
        cluster.judge_notes(MANY + 4)
        for member in cluster.members.values():  # all at once: everything comes from the disks
            member.kill()
        for name in "bca":
            cluster.start(name)
        cluster.wait_for_common_state("abc")
        cluster.judge_notes(MANY + 4)
        cluster.stop()


def test_both_sides_of_a_partition_and_a_partition_during_the_merge(tmp_path: Path) -> None:
    with ExitStack() as stack:
        try:
            network = stack.enter_context(NamespaceNetwork("abcde"))
        except NamespacesUnavailable as reason:
            pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
        cluster = NotesCluster(tmp_path, network=network)
        stack.enter_context(cluster)
        cluster.begin("abcde")
        cluster.wait_for_common_state("abcde")
        cluster.note("a", f"*{MANY // 4} {LONG}")
        network.part("abc", "de")
        cluster.wait_for_common_state("abc")
        cluster.wait_for_common_state("de")
        cluster.note("b", "of three")
        cluster.note("d", "of two")
        before = len(cluster.members["a"].events)
        network.heal()
        wait_for(
            lambda: any(e["event"] == "merge" and e["begins"] for e in cluster.members["a"].events[before:]), "a merge"
        )
        network.part("ad", "bce")
        cluster.wait_for_common_state("ad")
        cluster.wait_for_common_state("bce")
        cluster.note("e", "of the second partition")
        cluster.members["c"].kill()
        network.heal()
        cluster.start("c")
        cluster.wait_for_common_state("abcde")
        cluster.judge_notes(MANY // 4 + 3)
        cluster.stop()
