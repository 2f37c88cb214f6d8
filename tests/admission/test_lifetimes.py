"""Lifetimes: no request waits longer than its lifetime, even if a peer is stopped or the primary view is lost.

Judged by the access logs of the surviving nodes, and by the responses and times that their clients saw.
"""

from __future__ import annotations

import time
from signal import SIGCONT, SIGSTOP
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import Load, RunningCluster
from tests.support.fiveclasses import (
    EVENLY,
    FIVE_SPEC,
    PIPE,
    assert_lifetimes,
    assert_told_in_time,
    five_pages,
)
from tests.support.machine import Stalls
from tests.support.nodes import version
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing

STOPPED_S = 2.0
SUSPECTED_S = 1.0  # a stopped peer holds up the group for so long: twice the lifetime
OPTIONS = (
    "sys.modules['functools'].partial(m.Options, settings=sys.modules['msgspec'].structs.replace("
    f"sys.modules['cluster.runtime.api.options'].RUNTIME_SETTINGS, suspect_min={SUSPECTED_S}))"
)
PATIENT = version(("qosweb.server.cluster.membership", "Options", OPTIONS))
ALONE_S = 2.0
NOT_ALONE = "e"  # a class that is denied outside a primary view


def test_lifetimes_hold_with_a_stopped_peer_and_without_a_primary_view(tmp_path: Path) -> None:
    spec = FIVE_SPEC + f"</{NOT_ALONE}>.in_minority = deny\n"
    site = five_pages(tmp_path / "site")
    with Stalls() as stalls, RunningCluster(site, tmp_path, spec, "abc", *PIPE, command=PATIENT) as cluster:
        a, b, c = (cluster.nodes[name] for name in "abc")
        for name, node in cluster.nodes.items():
            stalls.watch(name, node.process.pid)
        assert a.get("/a/page").status == 200  # the first line in its log
        with Load(tmp_path, [a, b, c], EVENLY, "--rate", "500", "--duration", "150s") as load:
            wait_for(lambda: len(cluster.requests("abc")) >= 1_000 or None, "requests", 60)
            stopped_s = time.time()
            c.kill(SIGSTOP)
            cluster.until("ab", stopped_s + STOPPED_S)
            continued_s = time.time()
            c.kill(SIGCONT)
            cluster.together("abc")
            killed_s = time.time()
            b.process.kill()
            c.process.kill()
            alone_s = wait_for(lambda: alone_since(cluster, killed_s), "a to go on alone", 60)
            cluster.until("a", alone_s + ALONE_S)
            load.process.terminate()
            load.process.communicate()
        results = load.so_far()
        requests = {name: cluster.requests(name) for name in "abc"}
    # Requests that were waiting at c when it was stopped waited for c itself.
    of_c = [
        line for line in requests["c"] if line["ts"] > continued_s or line["ts"] + line["queue_ms"] / 1e3 < stopped_s
    ]
    assert_lifetimes([*requests["a"], *requests["b"], *of_c], stalls)
    assert_told_in_time([line for line in results if not line.get("target")], stalls, "a")

    waited = [line for line in requests["a"] if stopped_s < line["ts"] < continued_s and line["queue_ms"] > 0]
    assert any(line["decision"] == "expired" for line in waited)  # the group stood still for a while
    # Clients that b or c had redirected before keep their channel at a, which does not decide on them alone.
    life = life_of(requests["a"][0])
    alone = [line for line in requests["a"] if line["ts"] > alone_s and life_of(line) == life]
    assert {line["view"] for line in alone} == {""}
    assert {line["class"] for line in alone if line["decision"] == "served"} == {"/a", "/b", "/c", "/d"}
    assert {line["decision"] for line in alone if line["class"] == f"/{NOT_ALONE}"} == {"denied"}


def life_of(line: dict[str, Any]) -> str:
    """The process life of the node that the request came to first."""
    return str(line["rid"]).partition("-")[0]


def alone_since(cluster: RunningCluster, from_s: float) -> float | None:
    views = [line for line in cluster.events("a", "view") if line["ts"] > from_s and not line["primary"]]
    return float(views[0]["ts"]) if views else None
