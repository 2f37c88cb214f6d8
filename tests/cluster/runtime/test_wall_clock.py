"""Wall clock jumps of hours in running processes affect only log timestamps.

An LD_PRELOAD library moves the wall clock of each member as the test says.
"""

from __future__ import annotations

import time
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.cluster.runtime.members import Cluster
from tests.cluster.runtime.preloaded import Preloaded
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.runtime.members import Member

HOUR_S = 3600


def shown_offset_s(member: Member) -> float:
    """Offset between the test's clock and the timestamp of the member's last log line."""
    stamps = [line[:19] for line in member.stderr.splitlines() if line[:2] == "20"]
    return datetime.strptime(stamps[-1], "%Y-%m-%d %H:%M:%S").timestamp() - time.time() if stamps else 0.0  # noqa: DTZ007


def changes(cluster: Cluster) -> int:
    return sum(member.stderr.count("start_change") for member in cluster.members.values())


def test_a_wall_clock_that_jumps_changes_nothing(tmp_path: Path) -> None:
    clocks = Preloaded(tmp_path, "wallclock")
    with Cluster(tmp_path, durable=True) as cluster:
        for name in "abc":
            cluster.start(name, before=clocks.before(name))
        cluster.wait_for_primary("abc").load(2).wait_until_confirmed_at("abc", 20)
        seen = [changes(cluster)]
        for a, b, c in ((0, -HOUR_S, 0), (HOUR_S, -HOUR_S, 5 * HOUR_S), (-HOUR_S, HOUR_S, 0)):
            for name, offset_s in zip("abc", (a, b, c), strict=True):
                clocks.set(name, offset_s)
            cluster.wait_until_confirmed_at("abc", 20)
            seen.append(changes(cluster))
        # a busy machine may cause a view change at any time; a dependency on wall clocks would cause one each time
        assert any(one == other for one, other in pairwise(seen)), "views changed whenever wall clocks did"
        cluster.members["c"].kill()
        cluster.wait_for_primary("ab").wait_until_confirmed_at("ab", 20)
        for name, offset_s in (("a", -HOUR_S), ("b", HOUR_S)):  # the clocks were really moved
            assert abs(shown_offset_s(cluster.members[name]) - offset_s) < HOUR_S / 4
        cluster.start("c", before=clocks.before("c"))
        cluster.wait_for_primary("abc").wait_until_confirmed_at("ab", 20)
        wait_for(lambda: cluster.members["c"].status.get("position", 0) > 0, "c goes on")
        cluster.quiet().stop().judge()
