"""Signals of a node: graceful shutdown, immediate stop at the second signal, reload, systemd notifications."""

import contextlib
import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

import pytest

from tests.support.nodes import COMMAND, RunningNode, environment
from tests.support.raw import Closed, RawConnection, Reply
from tests.support.sites import LARGE, write_site
from tests.support.tls import client_context, write_certificate
from tests.support.waiting import wait_for

LONG = "120s"  # longer than any test may take: what ends before was not ended by it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("signals") / "site")


@contextlib.contextmanager
def transfer(node: RunningNode, tls: ssl.SSLContext | None = None) -> Iterator[RawConnection]:
    """A transfer that has begun and waits for its client."""
    with node.connect(tls=tls) as connection:
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 OK" in connection._read_until(b"\r\n\r\n")
        yield connection


def ask_admin(node: RunningNode, path: str) -> Reply:
    with RawConnection(node.admin_port) as connection:
        return connection.get(path, "Connection: close")


def accepts_nobody(node: RunningNode) -> bool:
    try:
        with node.connect():
            return False
    except ConnectionRefusedError:
        return True


def has_said(node: RunningNode, words: str) -> bool:
    return any(words in line for line in node.stderr)


# SIGTERM


def test_sigterm_lets_a_transfer_finish_and_accepts_no_connections(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--grace", LONG) as node, transfer(node) as busy:
        with node.connect() as idle, node.connect() as silent:
            assert idle.get("/").status == 200
            wait_for(lambda: node.metric("qosweb_connections") == 3, "three connections")
            assert ask_admin(node, "/readyz").status == 200
            node.kill(Signals.SIGTERM)
            assert idle.is_closed()
            assert silent.is_closed()
        wait_for(lambda: accepts_nobody(node), "the public port to close")
        ready = ask_admin(node, "/readyz?verbose")
        assert (ready.status, ready.body) == (503, b"[-] serving draining\n[+] cluster ok\n[+] root ok\n")
        assert ask_admin(node, "/readyz").body == b"serving: draining\n"
        assert ask_admin(node, "/livez").status == 200
        assert node.process.poll() is None
        assert len(busy._read_exactly(LARGE)) == LARGE
        busy.sock.settimeout(5)
        assert busy.is_closed()
        assert node.process.wait(30) == 0
    assert has_said(node, "draining for up to 120 s")
    ends = [(line["path"], line["decision"], line["bytes"]) for line in node.log()]
    assert ends == [("/", "served", 8), ("/large.bin", "served", LARGE)]


def test_sigterm_ends_an_idle_node_at_once(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--grace", LONG) as node, RawConnection(node.admin_port) as admin:
        assert admin.get("/livez").status == 200  # an open admin connection holds nothing up
        admin.send(b"GET /live")
        assert node.stop(Signals.SIGTERM) == 0


def test_a_request_that_has_begun_to_arrive_is_still_answered(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--grace", LONG) as node, node.connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\nHost: loc")
        wait_for(lambda: node.metric("qosweb_connections") == 1, "the connection")
        node.kill(Signals.SIGTERM)
        wait_for(lambda: has_said(node, "draining"), "the drain to begin")
        connection.send(b"alhost\r\n\r\n")
        reply = connection.read_reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert node.process.wait(30) == 0


def test_what_is_left_after_the_grace_time_is_cut_off(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--grace", "300ms") as node, transfer(node) as busy:
        assert node.stop(Signals.SIGTERM) == 0
        with pytest.raises(Closed):
            busy._read_exactly(LARGE)
    assert has_said(node, "connections still busy after 0.3 s: 1")
    assert_one_line_of_a_broken_transfer(node)


@pytest.mark.parametrize("hurry", [Signals.SIGTERM, Signals.SIGINT])
def test_a_second_signal_hurries(site: Path, tmp_path: Path, hurry: Signals) -> None:
    with RunningNode(site, tmp_path, "--grace", LONG) as node, transfer(node) as busy:
        node.kill(Signals.SIGTERM)
        wait_for(lambda: has_said(node, "draining"), "the drain to begin")
        assert node.stop(hurry) == 0
        with pytest.raises(Closed):
            busy._read_exactly(LARGE)
    assert_one_line_of_a_broken_transfer(node)


@pytest.mark.parametrize("over_tls", [False, True], ids=["plain", "tls"])
def test_sigint_stops_without_waiting(site: Path, tmp_path: Path, over_tls: bool) -> None:
    options: list[str] = []
    context = None
    if over_tls:
        certificate, key = write_certificate(tmp_path / "tls")
        options = ["--tls-cert", str(certificate), "--tls-key", str(key)]
        context = client_context(certificate)
    with RunningNode(site, tmp_path, "--grace", LONG, *options) as node, transfer(node, context):
        assert node.stop(Signals.SIGINT) == 0
    assert not has_said(node, "draining")
    assert_one_line_of_a_broken_transfer(node)


def assert_one_line_of_a_broken_transfer(node: RunningNode) -> None:
    [line] = node.log()
    assert (line["path"], line["decision"], line["status"]) == ("/large.bin", "failed", 200)
    assert isinstance(line["bytes"], int)
    assert 0 < line["bytes"] < LARGE


def test_signals_that_renew_files_do_not_end_a_node_that_starts(site: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    os.mkfifo(token, 0o600)  # the start waits until somebody writes it
    command = [*COMMAND, "serve", "--root", str(site), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--access-log", "none", "--admin-token-file", str(token)],
        stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip

        def open_token() -> int | None:
            assert process.poll() is None
            with contextlib.suppress(OSError):  # nobody reads it yet
                return os.open(token, os.O_WRONLY | os.O_NONBLOCK)
            return None

        try:
            writer = wait_for(open_token, "the node to read its token")
            process.send_signal(Signals.SIGHUP)
            process.send_signal(Signals.SIGUSR1)
            os.write(writer, b"0123456789abcdef-token")
            os.close(writer)
            assert process.stderr is not None
            assert "serving" in process.stderr.readline()
        finally:
            process.kill()


def test_a_closed_stderr_does_not_stop_the_node(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    page = tmp_path / "site" / "index.html"
    page.write_text("old")
    command = [*COMMAND, "serve", "--root", str(page.parent), "--listen", "127.0.0.1:0", "--admin", "none"]
    with subprocess.Popen(
        [*command, "--access-log", "none", "--cache-fresh", "1h"], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stderr is not None
            port = int(process.stderr.readline().rpartition(":")[2].strip().rstrip("/"))
            process.stderr.close()
            with RawConnection(port) as connection:
                assert connection.get("/").body == b"old"
                page.write_text("new")
                process.send_signal(Signals.SIGHUP)
                wait_for(lambda: connection.get("/").body == b"new", "the new page")
            process.send_signal(Signals.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


# SIGHUP


def test_sighup_shows_pages_that_changed_while_they_were_fresh(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    page = tmp_path / "site" / "index.html"
    page.write_text("old")
    with RunningNode(page.parent, tmp_path, "--cache-fresh", "1h") as node, node.connect() as connection:
        assert connection.get("/").body == b"old"
        page.write_text("new")
        assert connection.get("/").body == b"old"
        node.kill(Signals.SIGHUP)
        wait_for(lambda: connection.get("/").body == b"new", "the new page on the same connection")
        wait_for(lambda: has_said(node, "reloaded"), "the word that it was reloaded")


def test_sighup_changes_the_certificate_unless_it_is_bad(site: Path, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path / "tls")
    options = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    with RunningNode(site, tmp_path, *options) as node:
        old = client_context(certificate)
        with node.connect(tls=old) as connection:
            assert connection.get("/").status == 200
        certificate.write_text("not a certificate")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: has_said(node, "not reloaded, nothing has changed: --tls-cert"), "the refusal")
        with node.connect(tls=old) as connection:
            assert connection.get("/").status == 200
        write_certificate(tmp_path / "tls")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: has_said(node, "qosweb: reloaded"), "the reload")
        with node.connect(tls=client_context(certificate)) as connection:
            assert connection.get("/").status == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            node.connect(tls=old).close()


# systemd


SO_TIMESTAMPNS = 35  # of Linux; Python does not name it


class NotifySocket:
    """systemd's end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self.sent_s = 0.0  # when the last message was sent, by the kernel
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.sock.bind(address)
        self.sock.settimeout(30)

    def __enter__(self) -> "NotifySocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def next(self) -> dict[str, str]:
        message, extra, _, _ = self.sock.recvmsg(4096, 256)
        seconds, nanoseconds = struct.unpack("qq", extra[0][2])
        self.sent_s = seconds + nanoseconds / 1e9
        return dict(line.split("=", 1) for line in message.decode().splitlines())


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_systemd_hears_of_ready_reload_and_stop(site: Path, tmp_path: Path, kind: str) -> None:
    name = f"qosweb-test-{os.getpid()}"
    address = str(tmp_path / "notify") if kind == "path" else f"\0{name}"
    env = {"NOTIFY_SOCKET": address if kind == "path" else f"@{name}"}
    with NotifySocket(address) as systemd, RunningNode(site, tmp_path, env=env) as node:
        ready = systemd.next()
        assert (ready["READY"], ready["MAINPID"]) == ("1", str(node.process.pid))
        assert str(node.port) in ready["STATUS"]
        before = time.monotonic_ns() // 1000
        node.kill(Signals.SIGHUP)
        reloading = systemd.next()
        assert reloading["RELOADING"] == "1"
        assert before <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic_ns() // 1000
        assert systemd.next()["READY"] == "1"
        node.kill(Signals.SIGTERM)
        assert systemd.next() == {"STOPPING": "1"}
        assert node.process.wait(30) == 0


def test_the_watchdog_is_fed_also_while_draining(site: Path, tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    with (
        NotifySocket(env["NOTIFY_SOCKET"]) as systemd,
        RunningNode(site, tmp_path, "--grace", LONG, env=env) as node,
        transfer(node),
    ):
        assert systemd.next()["READY"] == "1"
        ready_s = systemd.sent_s
        assert [systemd.next() for _ in range(4)] == [{"WATCHDOG": "1"}] * 4
        assert systemd.sent_s - ready_s >= 0.2  # at a pace, not in a loop
        node.kill(Signals.SIGTERM)
        wait_for(lambda: systemd.next() == {"STOPPING": "1"}, "the notice that it stops")
        assert [systemd.next() for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
        assert node.stop(Signals.SIGTERM) == 0


def test_a_watchdog_meant_for_another_process_is_not_fed(site: Path, tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    with NotifySocket(env["NOTIFY_SOCKET"]) as systemd, RunningNode(site, tmp_path, env=env) as node:
        assert systemd.next()["READY"] == "1"
        assert node.stop() == 0
        assert systemd.next() == {"STOPPING": "1"}


def test_a_manager_that_does_not_listen_holds_nothing_up(site: Path, tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"}
    with NotifySocket(env["NOTIFY_SOCKET"]), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                sender.sendto(b"x", env["NOTIFY_SOCKET"])
        with RunningNode(site, tmp_path, env=env) as node:
            assert node.get("/").status == 200
            assert node.stop() == 0
