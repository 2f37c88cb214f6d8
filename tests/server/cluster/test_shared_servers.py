"""Servers that three nodes share, under skewed load: shares and limits hold over the cluster and in a partition."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespacesUnavailable
from tests.support.shared_servers import NAMES, ROUND_S, SHARES, SharedServers, compile_client
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.timing, pytest.mark.long]

WORKERS, TIME_MS = 8, "80"
SETTLES_S, LASTS_S = 5.0, 4.0


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc (./dev setup --full)")
def test_shares_and_limits_hold_over_the_cluster_and_on_both_sides_of_a_partition(tmp_path: Path) -> None:
    client = compile_client(tmp_path)
    servers = SharedServers(tmp_path, client, workers=WORKERS, time_ms=TIME_MS, seconds=600)
    with ExitStack() as stack:
        try:
            stack.enter_context(servers)
        except NamespacesUnavailable as reason:
            pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
        began_s = time.time()

        def served(from_s: float) -> int:
            return sum(line["ts"] > from_s for line in servers.log() if "work" in line)

        wait_for(lambda: served(began_s + SETTLES_S + LASTS_S) or None, "requests after a while", 120)
        cut_s = servers.part(NAMES[:2], NAMES[2:])
        wait_for(lambda: servers.nodes["n3"].members() == [] or None, "n3 to be alone", 60)
        wait_for(lambda: servers.nodes["n1"].members() == ["n1", "n2"] or None, "a view of two", 60)
        wait_for(lambda: served(cut_s + 8) or None, "requests on both sides for a while", 120)
        judged = servers.end()
    shares = judged.shares(began_s + SETTLES_S, cut_s)
    assert shares["a"] == pytest.approx(SHARES["a"], abs=4)
    means = judged.means(began_s + SETTLES_S, cut_s)
    assert means.queue <= 6  # of two servers, on a machine that may be busy
    assert max(one.longest_s for one in judged.excess(began_s + SETTLES_S, cut_s).values()) <= ROUND_S
    assert max(one.longest_s for one in judged.excess(cut_s, cut_s + 8, known_s=cut_s).values()) <= ROUND_S
    assert judged.failed == 0
