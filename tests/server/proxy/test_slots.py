"""An application server behind a node: its slots are divided by the policy, and the queue stands at the node."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import MisbehavingServer, Talk
from tests.support.nodes import RunningNode, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing

SLOTS = 4
SERVICE_S = 0.05
COSTS = {"/a": b"3", "/b": b"1"}
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!"
POLICY = """\
set lifetime = 10s
</a>.server_resource = 60%
</b>.server_resource = 40%
</now>.available = always
"""


class Application:
    """Counts what is in service at the same time; every request takes SERVICE_S."""

    def __init__(self) -> None:
        self.most = 0
        self._in_service = 0
        self._lock = threading.Lock()

    def answer(self, talk: Talk) -> None:
        with self._lock:
            self._in_service += 1
            self.most = max(self.most, self._in_service)
        time.sleep(SERVICE_S)
        with self._lock:
            self._in_service -= 1
        talk.send(ANSWER)


def causes(node: RunningNode, resource: str) -> list[str | None]:
    """The cause in each event of a resource."""
    return [one["cause"] for one in node.log_lines() if one.get("event") == "resource" and one["resource"] == resource]


class Closed:
    """Clients of one page, each of which sends its next request when it has its answer."""

    def __init__(self, node: RunningNode, page: str, number: int, counts: Counter[str]) -> None:
        self.slowest = 0.0
        self._counts = counts
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(node, page), daemon=True) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _run(self, node: RunningNode, page: str) -> None:
        with node.connect() as connection:
            while not self._stop.is_set():
                began = time.perf_counter()
                reply = connection.get(page)
                self._counts[f"{page} {reply.status}"] += 1
                self.slowest = max(self.slowest, time.perf_counter() - began)


def test_classes_get_their_shares_of_the_slots_against_the_split_of_the_connections(tmp_path: Path) -> None:
    """6 clients of the class with 60 %, 24 of the one with 40 %; answers have 13 bytes."""
    application, counts = Application(), Counter[str]()
    spec = tmp_path / "rules.webqos"
    spec.write_text(POLICY)
    with MisbehavingServer(application.answer) as server:
        config = tmp_path / "qosweb.toml"
        config.write_text(f"[[upstream]]\nurl = '{server.url}'\nslots = {SLOTS}\n")
        with RunningNode(None, tmp_path, "--config", str(config), "--spec", str(spec)) as node:
            clients = [Closed(node, "/a", 6, counts), Closed(node, "/b", 24, counts)]
            wait_for(lambda: sum(counts.values()) > 40 or None, "answers", timeout_s=60)
            counts.clear()
            wait_for(lambda: sum(counts.values()) > 400 or None, "more answers", timeout_s=120)
            found = dict(counts)
            status = json.loads(node.admin("/status"))["resources"]
            shown = run_command("status", "--admin", f"127.0.0.1:{node.admin_port}").stdout
            contended = sum(
                node.metric("qosweb_resource_contended", resource=status[1]["name"], kind="server", cause=cause)
                for cause in ("set", "server")
            )
            urgent = Closed(node, "/now", 1, counts)
            wait_for(lambda: counts["/now 200"] > 20 or None, "answers of the class that is always available")
            for one in (urgent, *clients):
                one.stop()
            name = server.url.removeprefix("http://") + "@n1"
            wait_for(lambda: causes(node, name)[-1] is None or None, "the end of the contention is logged")
            assert causes(node, name)[0] is None
            assert {*causes(node, name)} - {None} <= {"set", "server"}
            events = [one for one in node.log_lines() if one.get("event") == "resource"]
            lines = [one for one in node.log_lines() if one.get("class") == "/a"]
    assert found.keys() == {"/a 200", "/b 200"}
    assert 100 * found["/a 200"] / sum(found.values()) == pytest.approx(60, abs=4)
    assert [one["kind"] for one in status] == ["node", "server"]
    assert (status[0]["cause"], status[0]["found"], status[1]["name"]) == (None, "measured", name)
    assert status[1]["cause"] in ("set", "server")
    assert contended == 1
    assert "bottleneck" in shown
    of_server = [one for one in events if one["resource"] == name]
    assert {one["pool"] for one in of_server} == {name}
    assert all(1 <= one["limit"] <= SLOTS and one["found"] in ("set", "knee") for one in of_server)
    assert any(one["cause"] and one["waiting"] > 0 for one in of_server)
    assert {one["resource"] for one in events} == {name, "n1"}
    assert {one["resource"] for one in lines} == {name}
    assert all(1000 * SERVICE_S <= one["work"] <= one["service_ms"] for one in lines if one["decision"] == "served")
    assert application.most <= SLOTS + 1  # one of the class that is always available


def test_a_client_over_its_share_of_the_slots_is_told_so(tmp_path: Path) -> None:
    """Four slots, one of them for each client: the others are free, so there is no lack of capacity."""
    counts, spec = Counter[str](), tmp_path / "rules.webqos"
    spec.write_text("set lifetime = 200ms\n")
    with MisbehavingServer(Application().answer) as server:
        config = tmp_path / "qosweb.toml"
        config.write_text(f"[[upstream]]\nurl = '{server.url}'\nslots = {SLOTS}\n")
        with RunningNode(None, tmp_path, "--config", str(config), "--spec", str(spec)) as node:
            clients = Closed(node, "/a", 30, counts)
            wait_for(lambda: (counts["/a 429"] > 20 and counts["/a 200"] > 20) or None, "denials", timeout_s=60)
            with node.connect() as connection:
                denied = wait_for(
                    lambda: next((one for _ in range(50) if (one := connection.get("/a")).status == 429), None), "a 429"
                )
            clients.stop()
    assert set(counts) == {"/a 200", "/a 429"}
    assert denied.headers["qos-decision"] == "denied; reason=client_share"


def test_shares_are_measured_in_what_the_responses_say(tmp_path: Path) -> None:
    """Each request for /a costs 3 and each one for /b costs 1, so /b gets twice as many for 40 % of the costs."""
    counts, spec = Counter[str](), tmp_path / "rules.webqos"
    spec.write_text(POLICY + "".join(f'<{page}>.cost = response_header("X-Cost")\n' for page in COSTS))

    def answer(talk: Talk) -> None:
        time.sleep(SERVICE_S)
        talk.send(ANSWER.replace(b"Content", b"x-cost: " + COSTS.get(talk.path, b"much") + b"\r\nContent", 1))

    with MisbehavingServer(answer) as server:
        config = tmp_path / "qosweb.toml"
        config.write_text(f"[[upstream]]\nurl = '{server.url}'\nslots = {SLOTS}\n")
        with RunningNode(None, tmp_path, "--config", str(config), "--spec", str(spec)) as node:
            clients = [Closed(node, "/a", 12, counts), Closed(node, "/b", 24, counts)]
            wait_for(lambda: sum(counts.values()) > 80 or None, "answers", timeout_s=60)
            first = len(node.log_lines())
            counts.clear()
            wait_for(lambda: sum(counts.values()) > 400 or None, "more answers", timeout_s=120)
            found = dict(counts)
            lines = [one for one in node.log_lines()[first:] if one.get("decision") == "served"]
            with node.connect() as connection:
                for _ in range(3):
                    assert connection.get("/b?").status == 200
            for one in clients:
                one.stop()
            wait_for(lambda: [one for one in node.stderr if "x-cost" in one] or None, "a message about the bad costs")
            messages = [one for one in node.stderr if "x-cost" in one]
    assert found.keys() == {"/a 200", "/b 200"}
    assert 3 * found["/a 200"] / (3 * found["/a 200"] + found["/b 200"]) == pytest.approx(0.6, abs=0.04)
    work = Counter[str]()
    for line in lines:
        work[line["class"]] += line["work"]
    assert work["/a"] / work.total() == pytest.approx(0.6, abs=0.04)  # which the analysis judges
    assert len(messages) == 1
    assert "class /b" in messages[0]
