"""HTTPS: the same pages byte for byte, certificates that change at run time, and failing handshakes."""

from __future__ import annotations

import random
import socket
import ssl
from contextlib import ExitStack, contextmanager
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode, run_command
from tests.support.raw import Closed
from tests.support.tls import client_context, write_certificate
from tests.support.versions import overwrite, replace, stamped
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.raw import RawConnection

HEADER_TIMEOUT_S = 1.0
CONTENT = {
    "/empty.txt": b"",
    "/small.txt": b"small " * 1000,
    "/middle.bin": random.Random(1).randbytes(900_000),  # in memory, in several pieces on the wire
    "/large.bin": random.Random(2).randbytes(12 << 20),  # from disk
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    for target, content in CONTENT.items():
        (root / target[1:]).write_bytes(content)
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the certificate."""
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def node(root: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    certificate, key = write_certificate(folder)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key), "--header-timeout", f"{HEADER_TIMEOUT_S}s")
    with RunningNode(root, tmp_path_factory.mktemp("node"), *options) as node:
        yield node
        assert all("reloaded" in line for line in node.stderr[1:])
        wait_for(lambda: node.metric("qosweb_connections") == 0, "all connections to be gone")
        for name in ("qosweb_open_files", "qosweb_requests_in_service"):
            wait_for(lambda name=name: node.metric(name) == 0, f"{name} to be 0")  # type: ignore[misc]


@pytest.fixture
def tls(folder: Path, node: RunningNode) -> ssl.SSLContext:  # noqa: ARG001
    """A client that trusts only the current certificate."""
    return client_context(folder / "certificate.pem")


@contextmanager
def transfer(node: RunningNode, tls: ssl.SSLContext, target: str) -> Iterator[RawConnection]:
    """A client that requests a file and reads only its beginning."""
    with node.connect(tls=tls) as connection:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        connection._buffer = connection._recv(4096)
        yield connection


def test_pages_arrive_byte_for_byte(node: RunningNode, tls: ssl.SSLContext) -> None:
    assert node.url.startswith("https://")
    with node.connect(tls=tls) as connection:
        for _ in range(2):
            for target, content in CONTENT.items():
                reply = connection.get(target)
                assert (reply.status, reply.body) == (200, content)
                assert connection.get(target, method="HEAD").headers["content-length"] == str(len(content))
        assert connection.get("/nothing").status == 404


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(node: RunningNode, tls: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    tls.minimum_version = tls.maximum_version = version
    session: ssl.SSLSession | None = None
    for is_resumed in (False, True, True):
        plain = socket.create_connection(("127.0.0.1", node.port))
        with tls.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
            secure.sendall(b"HEAD /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secure.recv(15) == b"HTTP/1.1 200 OK"  # with TLS 1.3 the session comes before it
            assert secure.session_reused is is_resumed
            assert secure.version() == version.name.replace("TLSv1_", "TLSv1.")
            session = secure.session


def test_parts_arrive_byte_for_byte(node: RunningNode, tls: ssl.SSLContext) -> None:
    content = CONTENT["/large.bin"]
    with node.connect(tls=tls) as connection:
        assert connection.get("/large.bin", "Range: bytes=100000-9000000").body == content[100_000:9_000_001]
        reply = connection.get("/large.bin", "Range: bytes=0-4999999,6000000-")
        assert reply.status == 206
        assert content[:5_000_000] in reply.body
        assert content[6_000_000:] in reply.body
        assert len(reply.body) == int(reply.headers["content-length"])


def test_a_pipeline_of_small_and_large_is_answered_in_order(node: RunningNode, tls: ssl.SSLContext) -> None:
    with node.connect(tls=tls) as connection:
        order = ["/small.txt", "/large.bin", "/empty.txt", "/middle.bin", "/large.bin", "/small.txt"]
        connection.send(b"".join(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for target in order))
        for target in order:
            assert connection.read_reply().body == CONTENT[target]


def test_a_client_that_pauses_gets_everything_and_delays_no_other(node: RunningNode, tls: ssl.SSLContext) -> None:
    with transfer(node, tls, "/large.bin") as slow, transfer(node, tls, "/large.bin") as slower:
        with node.connect(tls=tls) as other:
            assert other.get("/large.bin").body == CONTENT["/large.bin"]
        assert slow.read_reply().body == CONTENT["/large.bin"]
        assert slower.read_reply().body == CONTENT["/large.bin"]


def test_a_file_that_changes_while_it_is_sent(node: RunningNode, tls: ssl.SSLContext, root: Path) -> None:
    page, size = root / "changing.bin", 12 << 20
    replace(page, stamped(0, size))
    with transfer(node, tls, "/changing.bin") as connection:
        replace(page, stamped(1, size))
        assert connection.read_reply().body == stamped(0, size)
    wait_for(lambda: b"version 1" in _get(node, tls, "/changing.bin")[:64], "the new version")
    with transfer(node, tls, "/changing.bin") as connection:
        overwrite(page, stamped(2, size))
        with pytest.raises((Closed, ssl.SSLError, ConnectionError)):
            connection.read_reply()


def _get(node: RunningNode, tls: ssl.SSLContext, target: str) -> bytes:
    with node.connect(tls=tls) as connection:
        return connection.get(target).body


def test_old_protocols_are_refused_and_http_1_1_is_agreed_on(node: RunningNode, folder: Path) -> None:
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = client_context(folder / "certificate.pem")
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        with node.connect(tls=context) as connection:
            assert isinstance(connection.sock, ssl.SSLSocket)
            assert connection.sock.selected_alpn_protocol() == "http/1.1"
            assert connection.get("/small.txt").status == 200
    # A hello of TLS 1.0, by hand: clients of today no longer know how.
    hello = b"\x03\x01" + bytes(32) + b"\x00\x00\x02\x00\x2f\x01\x00"
    handshake = b"\x01" + len(hello).to_bytes(3, "big") + hello
    reply = send_garbage(node, b"\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake)
    assert reply[:1] in (b"", b"\x15")  # nothing, or an alert


CBC_SUITES = "ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES256-SHA384:ECDHE-RSA-AES128-SHA256"


def test_tls_1_2_only_with_authenticated_encryption(node: RunningNode, folder: Path) -> None:
    context = client_context(folder / "certificate.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with node.connect(tls=context) as connection:
        assert connection.get("/small.txt").status == 200
    context.set_ciphers(CBC_SUITES)
    with pytest.raises(ssl.SSLError):
        connect_as(node, context)


def send_garbage(node: RunningNode, data: bytes) -> bytes:
    """Send bytes that are not a handshake; returns everything that comes back."""
    with node.connect() as connection:
        connection.send(data)
        return connection.read_to_end()


def reload(node: RunningNode) -> str:
    """Reload; returns the node's message about it."""
    said = len(node.stderr)
    node.kill(Signals.SIGHUP)
    wait_for(lambda: len(node.stderr) > said, "an answer to the signal")
    return node.stderr[said]


def test_a_new_certificate_for_new_connections(node: RunningNode, folder: Path) -> None:
    """For any key type: a client sees the newest certificate, not the key type that it prefers."""
    with ExitStack() as stack:
        connections = []
        for kind in ("ec", "rsa", "rsa", "ec", "ec"):
            write_certificate(folder, kind=kind)
            assert reload(node).startswith("qosweb: reloaded: ")
            context = client_context(folder / "certificate.pem")  # trusts none of the older ones
            connections.append(stack.enter_context(node.connect(tls=context)))
            for connection in connections:
                assert connection.get("/small.txt").body == CONTENT["/small.txt"]


def test_a_bad_certificate_changes_nothing(
    node: RunningNode, tls: ssl.SSLContext, folder: Path, tmp_path: Path
) -> None:
    good = {path: path.read_bytes() for path in (folder / "certificate.pem", folder / "key.pem")}
    other_certificate, _ = write_certificate(tmp_path / "other")
    _, locked_key = write_certificate(tmp_path / "locked", passphrase=b"secret")
    attempts = {
        folder / "certificate.pem": (other_certificate.read_bytes(), b"nonsense", b"", None),
        folder / "key.pem": (locked_key.read_bytes(), b"nonsense", b"", None),
    }
    with node.connect(tls=tls) as old:
        for path, contents in attempts.items():
            for content in contents:
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                said = reload(node)
                assert said.startswith("qosweb: not reloaded, nothing has changed: --tls-")
                assert str(path) in said
                path.write_bytes(good[path])
                path.chmod(0o600)
                with node.connect(tls=tls) as connection:
                    assert connection.get("/small.txt").status == 200
                assert old.get("/small.txt").status == 200
    assert reload(node).startswith("qosweb: reloaded: ")


def test_a_key_that_others_may_read_is_refused(
    node: RunningNode, tls: ssl.SSLContext, root: Path, folder: Path, tmp_path: Path
) -> None:
    key = folder / "key.pem"
    for mode in (0o640, 0o604):
        key.chmod(mode)
        refusal = f"--tls-key {key}: others may read it (mode {mode:04o}); chmod 600 {key}"
        assert reload(node) == f"qosweb: not reloaded, nothing has changed: {refusal}"
        certificate, own_key = write_certificate(tmp_path / f"{mode:o}")
        own_key.chmod(mode)
        done = run_command(
            "serve", "--root", str(root), "--listen", "0", "--tls-cert", str(certificate), "--tls-key", str(own_key)
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--tls-key {own_key}: others may read it (mode {mode:04o}); chmod 600 {own_key}" in done.stderr
    key.chmod(0o600)
    assert reload(node).startswith("qosweb: reloaded: ")
    assert _get(node, tls, "/small.txt") == CONTENT["/small.txt"]


def test_bytes_that_are_not_a_handshake_do_no_harm(node: RunningNode, tls: ssl.SSLContext) -> None:
    assert b"small small" not in send_garbage(node, b"GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for seed in range(20):
        send_garbage(node, random.Random(seed).randbytes(2000) + b"\n" * 5)
    for beginning in (b"\x16\x03\x01\xff\xff", b"\x16\x03\x03\x00\x05\x01\x00\x00\x01\x00", b"\x80\x2e\x01\x00\x02"):
        with node.connect() as connection:
            connection.send(beginning)
            connection.half_close()
            connection.read_to_end()
    with pytest.raises(ssl.SSLError):  # a client that does not trust us goes away in the middle
        connect_as(node, ssl.create_default_context())
    assert _get(node, tls, "/small.txt") == CONTENT["/small.txt"]


def connect_as(node: RunningNode, context: ssl.SSLContext) -> None:
    with socket.create_connection(("127.0.0.1", node.port), timeout=20) as sock:
        context.wrap_socket(sock, server_hostname="localhost").close()


def test_a_handshake_that_is_never_finished(node: RunningNode, tls: ssl.SSLContext) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)  # of 512 bytes
    with ExitStack() as stack:
        stuck = [stack.enter_context(node.connect()) for _ in range(30)]
        for at, connection in enumerate(stuck):
            connection.send(hello[:at])
        assert _get(node, tls, "/large.bin") == CONTENT["/large.bin"]
        for connection in stuck:
            connection.read_to_end()  # the server ends it, after --header-timeout
