"""Several upstream servers: a server that dies, hangs or restarts costs no request whose answer had not begun."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.misbehaving import OK, MisbehavingServer, Talk, free_port
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def in_front(folder: Path, *options: str, tables: str = "") -> Iterator[RunningNode]:
    if tables:
        (folder / "qosweb.toml").write_text(tables)
        options = ("--config", str(folder / "qosweb.toml"), *options)
    with RunningNode(None, folder, *options) as node:
        yield node
        assert not any("internal error" in line for line in node.stderr), node.stderr


def named(name: bytes) -> MisbehavingServer:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(name) + name
    return MisbehavingServer(lambda talk: talk.send(answer))


def options_of(*servers: MisbehavingServer) -> list[str]:
    return [word for one in servers for word in ("--upstream", one.url)]


class Clients:
    """Threads that send GETs, each on its own connection, until they are stopped."""

    def __init__(self, node: RunningNode, number: int = 8) -> None:
        self.bodies: list[bytes] = []
        self.failed: list[object] = []
        self._node = node
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(number)]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def more(self, count: int = 200) -> None:
        before = len(self.bodies)
        wait_for(lambda: len(self.bodies) >= before + count or self.failed or None, "more answers")

    def _run(self) -> None:
        with self._node.connect() as connection:
            while not self._stop.is_set():
                try:
                    reply = connection.get("/x")
                except Exception as error:
                    self.failed.append(error)
                    return
                if reply.status == 200:
                    self.bodies.append(reply.body)
                else:
                    self.failed.append((reply.status, reply.body))


def test_a_server_that_is_killed_fails_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(named(name)) for name in (b"a", b"b", b"c", b"d")]
        node = stack.enter_context(in_front(tmp_path, *options_of(*servers)))
        with Clients(node) as clients:
            clients.more()
            assert set(clients.bodies) == {b"a", b"b", b"c", b"d"}
            servers[0].__exit__()
            wait_for(lambda: node.metric("qosweb_upstream_up", server=f"127.0.0.1:{servers[0].port}") == 0, "it is out")
            before = len(clients.bodies)
            clients.more()
        assert not clients.failed
        assert set(clients.bodies[before:]) <= {b"b", b"c", b"d"}
        assert any(f"upstream 127.0.0.1:{servers[0].port} is out: connection errors" in line for line in node.stderr)
        status = node.admin("/status")
        assert '"health": "out"' in status or '"health":"out"' in status
        assert node.readiness().startswith("ok")


def test_a_server_that_returns_gets_requests_again(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with named(b"a") as always, in_front(tmp_path, *options_of(always), "--upstream", url) as node:
        with Clients(node, 4) as clients:
            wait_for(lambda: node.metric("qosweb_upstream_up", server=f"127.0.0.1:{port}") == 0, "it is out")
            with MisbehavingServer(lambda talk: talk.send(OK), port) as _:
                wait_for(lambda: b"ok" in clients.bodies or None, "its first answer")
                wait_for(lambda: node.metric("qosweb_upstream_up", server=f"127.0.0.1:{port}") == 1, "it is back")
                clients.more(20)
        assert not clients.failed


def test_a_hanging_server_is_out_within_its_timeout(tmp_path: Path) -> None:
    with (
        named(b"a") as good,
        MisbehavingServer(Talk.hang) as hanging,
        in_front(tmp_path, *options_of(good, hanging), "--upstream-timeout", "1s") as node,
    ):
        with Clients(node, 4) as clients:
            name = f"127.0.0.1:{hanging.port}"
            wait_for(lambda: node.metric("qosweb_upstream_up", server=name) == 0 or None, "it is out")
            clients.more()
        assert not clients.failed
        assert node.metric("qosweb_upstream_retries_total") >= 1


def test_a_rolling_restart_fails_no_request(tmp_path: Path) -> None:
    """Each server finishes its requests, closes its connections, and comes back on its port."""
    ports = [free_port(), free_port()]

    def script(talk: Talk) -> None:
        talk.send(OK)

    with ExitStack() as stack:
        servers = [stack.enter_context(MisbehavingServer(script, port)) for port in ports]
        node = stack.enter_context(in_front(tmp_path, *options_of(*servers)))
        with Clients(node, 4) as clients:
            clients.more(50)
            for at, port in enumerate(ports):
                servers[at].drain()
                clients.more(50)
                servers[at] = stack.enter_context(MisbehavingServer(script, port))
                clients.more(50)
                wait_for(lambda p=port: node.metric("qosweb_upstream_up", server=f"127.0.0.1:{p}") == 1, "it is back")  # type: ignore[misc]
        assert not clients.failed


def test_requests_are_routed_by_host_and_path(tmp_path: Path) -> None:
    with named(b"any") as other, named(b"api") as api, named(b"shop") as shop:
        tables = f"""
            [[upstream]]
            url = "{other.url}"
            paths = "/other/*"
            [[upstream]]
            name = "api"
            url = "{api.url}"
            paths = ["/api/*"]
            host = "internal.example"
            [[upstream]]
            url = "{shop.url}"
            hosts = ["shop.example", "*.shop.example"]
        """
        with in_front(tmp_path, tables=tables) as node, node.connect() as connection:
            asked = [(b"h", b"/api/x"), (b"h", b"/other/"), (b"eu.shop.example", b"/other/"), (b"h", b"/x")]
            got = []
            for host, path in asked:
                connection.send(b"GET %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (path, host))
                reply = connection.read_reply()
                got.append(reply.body if reply.status == 200 else reply.status)
            assert got == [b"api", b"any", b"shop", 404]
            assert b"Host: internal.example" in api.heads[0]
            assert b"Host: eu.shop.example" in shop.heads[0]


def test_active_checks_take_a_server_out_and_back(tmp_path: Path) -> None:
    healthy = threading.Event()

    def script(talk: Talk) -> None:
        is_check = talk.path == "/healthz"
        status = b"503 Busy" if is_check and not healthy.is_set() else b"200 OK"
        talk.send(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status)

    with MisbehavingServer(script) as server:
        tables = f'[[upstream]]\nname = "app"\nurl = "{server.url}"\nhealth_path = "/healthz"\n'
        tables += 'health_interval = "0.1s"\n'
        with in_front(tmp_path, tables=tables) as node:
            wait_for(lambda: node.metric("qosweb_upstream_up", server="app") == 0 or None, "it is out")
            assert "upstream: all upstream servers are out: app (health checks: status 503)" in node.readiness()
            assert node.get("/x").status == 200  # there is no other
            healthy.set()
            wait_for(lambda: node.metric("qosweb_upstream_up", server="app") == 1 or None, "it is back")
            assert node.readiness().startswith("ok")


def test_only_idempotent_requests_are_sent_twice(tmp_path: Path) -> None:
    with (
        MisbehavingServer(lambda talk: talk.reset()) as first,
        MisbehavingServer(lambda talk: talk.reset()) as second,
        in_front(tmp_path, *options_of(first, second)) as node,
    ):
        assert node.get("/x").status == 502
        assert first.requests + second.requests == 2
        assert node.get("/x", "Content-Length: 0", method="POST").status == 502
        assert first.requests + second.requests == 3


class Lossy:
    """A server that answers the first request of a connection, and closes when the second has come and time passed."""

    def __init__(self, after_s: float = 0.0) -> None:
        self._after_s = after_s
        self._used: set[Talk] = set()

    def __call__(self, talk: Talk) -> None:
        if talk in self._used:
            talk.pause(self._after_s)
            talk.close()
        else:
            self._used.add(talk)
            talk.send(OK)


def test_a_lost_idle_connection_is_replaced_at_the_same_server(tmp_path: Path) -> None:
    """Only what is sent to another server counts in the budget, and only that."""
    with (
        MisbehavingServer(Lossy()) as lossy,
        named(b"b") as good,
        in_front(tmp_path, *options_of(lossy, good)) as node,
        node.connect() as connection,
    ):
        for _ in range(40):
            assert connection.get("/x").status == 200
        assert lossy.requests > lossy.connections >= 2  # connections were lost
        ids = [{line for head in one.heads for line in head.split(b"\r\n") if line.startswith(b"X-Request-Id")}
               for one in (lossy, good)]  # fmt: skip
        assert len(ids[0] & ids[1]) == node.metric("qosweb_upstream_retries_total")


def test_a_lost_connection_is_not_replaced_after_the_lifetime(tmp_path: Path) -> None:
    spec = tmp_path / "site.webqos"
    spec.write_text("set lifetime = 300ms\n")
    with (
        MisbehavingServer(Lossy(after_s=0.6)) as lossy,
        in_front(tmp_path, *options_of(lossy), "--spec", str(spec)) as node,
        node.connect() as connection,
    ):
        assert connection.get("/x").status == 200
        assert connection.get("/x").status == 502
        assert lossy.requests == 2


def test_a_request_that_was_never_sent_goes_to_another_server(tmp_path: Path) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    with named(b"a") as good, in_front(tmp_path, "--upstream", gone, *options_of(good)) as node:
        for _ in range(4):
            assert node.get("/x", "Content-Length: 0", method="POST").body == b"a"


@pytest.mark.parametrize("slots", [1, 2])
def test_slots_bound_the_requests_at_a_server(tmp_path: Path, slots: int) -> None:
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        go_on.wait(60)
        talk.send(OK)

    with MisbehavingServer(script) as server:
        tables = f'[[upstream]]\nurl = "{server.url}"\nslots = {slots}\n'
        with in_front(tmp_path, "--client-share", "100%", tables=tables) as node, ExitStack() as stack:
            connections = [stack.enter_context(node.connect()) for _ in range(4)]
            for connection in connections:
                connection.send(b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            wait_for(lambda: server.requests == slots or None, "the first requests")
            wait_for(lambda: node.metric("qosweb_upstream_in_service", server=f"127.0.0.1:{server.port}") == 4, "4")
            assert server.requests == slots
            go_on.set()
            assert [connection.read_reply().body for connection in connections] == [b"ok"] * 4
