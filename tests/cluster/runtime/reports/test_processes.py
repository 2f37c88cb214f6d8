"""Reports between real processes: current values everywhere, also while a member is stopped, killed or new."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.runtime.members import Cluster, Member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def reports(member: Member) -> dict[str, Any]:
    return next((event for event in reversed(member.events) if event["event"] == "reports"), {})


def values(member: Member, sender: str) -> dict[str, str]:
    found = reports(member).get("values", {})
    return next((of for name, of in found.items() if name.partition(".")[0] == sender), {})


def has_load_of_a(member: Member) -> bool:
    return values(member, "a") == {"load": "0.7"}


def test_reports_reach_all_members_and_a_stopped_one_costs_nobody_anything(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        cluster.members["a"].say(".report load 0.7")
        for member in cluster.members.values():
            wait_for(partial(has_load_of_a, member), f"{member.name} has the load of a")
        stopped = cluster.members["c"]
        stopped.signal(signal.SIGSTOP)
        cluster.members["a"].say(".reports 2000 50")
        a, b = cluster.members["a"], cluster.members["b"]
        wait_for(lambda: reports(a).get("published", 0) > 4_000, "a publishes", 60)
        seen = int(reports(a)["published"])
        wait_for(lambda: max(map(int, list(values(b, "a").values())[1:] or ["0"])) > seen, "b follows", 60)
        a.say(".reports 0")
        assert reports(a)["refused"] == 0
        stopped.signal(signal.SIGCONT)
        wait_for(lambda: len(values(stopped, "a")) == 51 and values(stopped, "a") == values(a, "a"), "c catches up", 60)
        wait_for(lambda: values(b, "a") == values(a, "a"), "b has the same", 60)
        cluster.start("d")
        wait_for(lambda: values(cluster.members["d"], "a") == values(a, "a"), "a newcomer has every current value", 60)
        a.kill()
        cluster.wait_for_primary("bcd")
        wait_for(lambda: values(b, "a") == values(stopped, "a"), "the others agree on what is left of a", 60)
        b.say(".report load 0.2")
        wait_for(lambda: values(cluster.members["d"], "b") == {"load": "0.2"}, "reports go on", 60)
