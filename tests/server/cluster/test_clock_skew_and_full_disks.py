"""A node with a wrong clock, and nodes with full disks: they report it, and other nodes are not affected.

A preloaded library moves the clock of the node. The full disk is a small file system that only the node sees.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.cluster.runtime.preloaded import Preloaded
from tests.support.clusters import KIB, Load, RunningCluster, make_site, shares
from tests.support.nodes import version
from tests.support.pipeuse import rate_bps, sent
from tests.support.smalldisk import as_seen_by, fill, small_disk
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Lines
    from tests.support.nodes import RunningNode

pytestmark = [pytest.mark.timing, pytest.mark.long]

HOUR_S = 3600
PIPE, PIPE_BPS = "1MB/s", 1 << 20
FULL = 0.9
ATTEMPTS = 10
SPEC = "set lifetime = 20s\nset channel = 64KB in 1s\n"


TWO_CLASSES = """\
set lifetime = 500ms
set channel = 16KB in 100ms
</a>.server_resource = 25%
</b>.server_resource = 75%
"""


def spec_for_later() -> str:
    """A specification with a guarantee that begins in an hour, by the clock."""
    from_s, to_s = time.time() + HOUR_S / 2, time.time() + 1.5 * HOUR_S
    hours = "..".join(time.strftime("%H:%M", time.gmtime(at)) for at in (from_s, to_s))
    return f"{SPEC}time in {hours} => </b>.available = always\n"


def says(node: RunningNode, *words: str, within_s: float = 60) -> None:
    said = node.stderr
    wait_for(
        lambda: any(all(word in line for word in words) for line in said) or None, f"a line with {words}", within_s
    )


def patience(seconds: float) -> list[str]:
    """The command of a version that waits for a full disk for this long."""
    bounds = f"__import__('functools').partial(m.Bounds, disk_wait_s={seconds})"
    return version(("qosweb.server.cluster.membership", "Bounds", bounds))


def much_to_write(cluster: RunningCluster) -> None:
    """A large policy, which every member has to write to its disk."""
    a = cluster.nodes["a"]
    text = cluster.spec.read_text() + f"# {time.monotonic_ns()} {'x' * 100}\n" * 5_000
    url = f"http://127.0.0.1:{a.admin_port}/policy"
    with urllib.request.urlopen(urllib.request.Request(url, text.encode(), method="PUT"), timeout=20) as reply:
        assert reply.status == 200


def test_a_clock_an_hour_off_affects_only_the_nodes_own_log(tmp_path: Path) -> None:
    clocks = Preloaded(tmp_path, "wallclock")
    site = make_site(tmp_path / "site", {"a": 64 * KIB, "b": 16})
    with RunningCluster(site, tmp_path, spec_for_later(), "ab", "--capacity", "64KB/s") as cluster:
        c = cluster.add("c", before=clocks.before("c"))
        cluster.together("abc")
        assert cluster.status("a")["policy"]["in_force"] == []
        for hours, where in ((1, "ahead of"), (-2, "behind")):
            clocks.set("c", hours * HOUR_S)
            wait_for(lambda: ahead_s(cluster) in (3600, -7200) or None, "a sees the clock of c")
            says(c, "the clock of this node is", where, "set it")
            clocks.set("c", 0)
            wait_for(lambda: ahead_s(cluster) == 0 or None, "it is right again")
            says(c, "the clock of this node agrees with the cluster's again")
        clocks.set("c", HOUR_S)
        assert [cluster.status(name)["policy"]["in_force"] for name in "abc"] == [[], [], []]
        # Tickets use the cluster's time: a client redirected from a full pipe is expected at its target.
        a = cluster.nodes["a"]
        good = sum(cluster.status(name)["tickets"].get("good", 0) for name in "bc")
        wait_for(lambda: _follow(a, cluster) or None, "a client is sent away from a")
        assert sum(cluster.status(name)["tickets"].get("good", 0) for name in "bc") == good + 1
        assert [line for name in "ab" for line in cluster.nodes[name].stderr if "the clock" in line] == []


def ahead_s(cluster: RunningCluster) -> int:
    """How far c's clock is ahead as a sees it, in whole minutes."""
    return 60 * round(float(cluster.status("a")["nodes"]["c"]["clock_ahead_s"]) / 60)


def _follow(a: RunningNode, cluster: RunningCluster) -> bool:
    """Whether a client was redirected from a node with a full pipe and then served."""
    with a.connect() as first, a.connect() as second:
        first.send(b"GET /a/page HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_for(lambda: cluster.status("a")["nodes"]["a"]["channels"] or None, "the pipe of a is full")
        reply = second.get("/b/page")
        first.read_reply()
    location = reply.headers.get("location", "")
    there = next((node for node in cluster.nodes.values() if location.startswith(node.url)), None)
    if reply.status != 307 or there is None:
        return False
    with there.connect() as connection:
        host = there.url.partition("//")[2]
        connection.send(f"GET {location.removeprefix(there.url)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return connection.read_reply().status == 200


def test_full_disks_of_one_node(tmp_path: Path) -> None:
    """The disks of its membership, its access log and its order log."""
    site = make_site(tmp_path / "site", {"a": 16 * KIB, "b": 16 * KIB})
    place = tmp_path / "place"
    before = small_disk(place, "48m")
    with RunningCluster(site, tmp_path, TWO_CLASSES, "ab", "--capacity", PIPE) as cluster:
        a, b = (cluster.nodes[name] for name in "ab")
        logs = ("--access-log", str(place / "access.log"), "--order-log", str(place / "order.log"))
        c = cluster.add("c", "--data-dir", str(place / "data"), *logs, before=before, command=patience(600))
        cluster.together("abc")
        filler = fill(c.process, place)

        def goes_on() -> bool:
            much_to_write(cluster)
            assert [node.get("/a/page").status for node in (a, b, c)] == [200, 200, 200]
            return any("the disk is full; this member retries" in line for line in c.stderr)

        wait_for(goes_on, "c says that its disk is full", 60)
        cluster.together("ab")
        assert "cluster: waits for its disk, which is full\n" in c.readiness()
        assert c.get("/a/page").headers["qos-scope"] == "local"
        assert shares(under_load(cluster, tmp_path), 1, 5)["/b"] == pytest.approx(
            0.75, abs=0.06
        )  # as if c were not there
        says(c, "access log: cannot write", "No space left on device")
        says(c, "cannot write the order log", "No space left on device")
        filler.unlink()
        cluster.together("abc")
        assert c.readiness() == "ok\n"
        says(c, "access log: writing again; 0 lines lost so far")
        assert a.get("/a/page").status == 200
        says(c, "the order log", "is written again")
        assert not any("Traceback" in line for node in (a, b, c) for line in node.stderr)
        lines = as_seen_by(c.process, place / "access.log").read_text().splitlines()
        assert all(json.loads(line) for line in lines)


def under_load(cluster: RunningCluster, scratch: Path) -> Lines:
    """The log lines of a and b under a load of five seconds that fills their pipes.

    Without full pipes, shares mean nothing. On a busy machine that may take another try.
    """
    for _ in range(ATTEMPTS):
        before = len(cluster.requests("ab"))
        targets = [cluster.nodes[name] for name in "ab"]
        with Load(scratch, targets, ["a=50:/a/page", "b=50:/b/page"], "--rate", "260", "--duration", "5s") as load:
            load.wait()
        requests = cluster.requests("ab")[before:]
        began = float(requests[0]["ts"])
        if rate_bps(sent(requests), began + 1, began + 5) >= FULL * 2 * PIPE_BPS:
            return requests
    pytest.skip("needs a machine that is less busy: the pipes were never full")


def test_a_node_that_waits_for_the_state_says_so(tmp_path: Path) -> None:
    """The node has the state once it is on its disk, which is slow."""
    disks = Preloaded(tmp_path, "slowdisk")
    site = make_site(tmp_path / "site", {"a": KIB})
    with RunningCluster(site, tmp_path, SPEC, "ab") as cluster:
        slow = disks.before("c")
        disks.set("c", 250)
        c = cluster.add("c", "--data-dir", str(tmp_path / "data"), before=slow)
        wait_for(lambda: c.readiness() == "cluster: state transfer\n" or None, "the state is on its way", 60)
        assert c.get("/a/page").status == 200
        disks.set("c", 0)
        cluster.together("abc")
        assert c.readiness() == "ok\n"


def test_a_node_whose_member_stops_goes_on_alone_and_ends_in_order(tmp_path: Path) -> None:
    """Its disk stays full, and it does not wait for long."""
    site = make_site(tmp_path / "site", {"a": KIB})
    place = tmp_path / "place"
    before = small_disk(place, "48m")
    with RunningCluster(site, tmp_path, SPEC, "ab") as cluster:
        c = cluster.add("c", "--data-dir", str(place / "data"), before=before, command=patience(0.5))
        cluster.together("abc")
        fill(c.process, place)

        def stops() -> bool:
            much_to_write(cluster)
            return any("has left its cluster" in line for line in c.stderr)

        wait_for(stops, "c stops", 60)
        cluster.together("ab")
        says(c, "group: this member stops: the disk was full for")
        says(c, "this node has left its cluster after an error and now decides alone; restart it to rejoin: the disk")
        assert c.readiness().startswith("cluster: out of the cluster until it is started again: the disk was full")
        reply = c.get("/a/page")
        assert (reply.status, reply.headers["qos-scope"]) == (200, "local")
        assert c.stop() == 0
        assert not any("Traceback" in line for line in c.stderr)
