"""Web pages cannot use the admin port: DNS rebinding and requests of other origins are refused."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import find_browser
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply
from tests.support.sites import write_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = "</index.html>.available = always\n"
OTHER_SPEC = "</page.html>.server_resource > 40%\n"
CHANGE = "X-QoSweb-Admin: 1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("guard")
    (folder / "site.webqos").write_text(SPEC)
    options = ("--spec", str(folder / "site.webqos"), "--admin-host", "Node1.example", "--admin-host", "node1")
    with RunningNode(write_site(folder / "site"), folder, *options) as node:
        yield node


def ask(
    node: RunningNode, host: str, *fields: str, method: str = "GET", path: str = "/status", body: str = ""
) -> Reply:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *fields, f"Content-Length: {len(body)}", "Connection: close"]
    with RawConnection(node.admin_port) as connection:
        connection.send(("\r\n".join([*lines, "", ""]) + body).encode())
        return connection.read_reply(head_only=method == "HEAD")


def put(node: RunningNode, host: str, *fields: str) -> int:
    """The status of a change of the policy, to the one that is in force already."""
    return ask(node, host, *fields, method="PUT", path="/policy", body=SPEC).status


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:{port}", "[::1]:{port}", "192.0.2.7", "localhost", "LOCALHOST:{port}", "localhost.",
     "node1.example", "NODE1.example:{port}", "node1.example.", "node1:80"],
)  # fmt: skip
def test_known_hosts_are_accepted(node: RunningNode, host: str) -> None:
    host = host.format(port=node.admin_port)
    assert ask(node, host).status == 200
    assert put(node, host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:{port}", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil-localhost",
     "x.node1.example", "a.localhost", "", "127.0.0.1:x", "evil.example@127.0.0.1", "[evil]"],
)  # fmt: skip
def test_dns_rebinding_is_refused(node: RunningNode, host: str) -> None:
    """The name of the attacker resolves to this machine: the browser sees one origin, the node a foreign host."""
    host = host.format(port=node.admin_port)
    same_origin = ("Sec-Fetch-Site: same-origin", f"Origin: http://{host}", CHANGE)
    for path in ("/", "/status", "/policy", "/metrics", "/livez"):
        assert ask(node, host, path=path).status in (400, 421)
        assert ask(node, host, *same_origin, path=path).status in (400, 421)
    assert put(node, host, *same_origin) in (400, 421)
    assert put(node, host) in (400, 421)
    assert ask(node, host, *same_origin, method="POST", path="/drain").status in (400, 421)
    assert ask(node, "localhost", path="/readyz").status == 200


def test_the_refusal_names_the_option(node: RunningNode) -> None:
    reply = ask(node, "evil.example")
    assert reply.status == 421
    assert b"--admin-host NAME" in reply.body


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_origins_are_refused_whatever_the_method(node: RunningNode, site: str) -> None:
    for method, path in (("GET", "/"), ("GET", "/status"), ("HEAD", "/status"), ("PUT", "/policy"), ("POST", "/drain")):
        assert ask(node, "localhost", f"Sec-Fetch-Site: {site}", CHANGE, method=method, path=path).status == 403
    assert ask(node, "localhost", path="/readyz").status == 200


def test_changes_from_a_browser_need_a_custom_field(node: RunningNode) -> None:
    host = f"localhost:{node.admin_port}"
    from_page = ("Sec-Fetch-Site: same-origin", f"Origin: http://{host}")
    for fields in (from_page, from_page[:1], from_page[1:], ("Sec-Fetch-Mode: no-cors",), ("Sec-Fetch-Site: none",)):
        assert put(node, host, *fields) == 403
        assert put(node, host, *fields, CHANGE) == 200
        assert ask(node, host, *fields).status == 200  # reading does not
    assert put(node, host) == 200
    for origin in ("http://elsewhere.example", "null", "http://localhost:1"):
        assert put(node, host, f"Origin: {origin}", CHANGE) == 403


# In a browser


ATTACK = """<!doctype html><title>x</title><pre id="seen">nothing</pre><script>
const node = NODE;
const attempts = {
  status: () => fetch(node + "/status").then(r => r.text().then(text => r.status + " " + text)),
  policy: () => fetch(node + "/policy", {method: "PUT", body: SPEC}).then(r => r.status),
  named: () => fetch(node + "/policy", {method: "PUT", body: SPEC, headers: {"X-QoSweb-Admin": "1"}})
    .then(r => r.status),
  opaque: () => fetch(node + "/drain", {method: "POST", mode: "no-cors"}).then(r => r.status),
};
(async () => {
  const seen = {};
  for (const [name, attempt] of Object.entries(attempts))
    seen[name] = await attempt().then(String, error => "failed: " + error);
  document.getElementById("seen").textContent = "SEEN " + JSON.stringify(seen) + " END";
})();
</script>
"""


class RebindingServer:
    """Serves the attacker's page to the first connection and passes all later ones on to the admin port."""

    def __init__(self, page: str, target_port: int) -> None:
        self._page = page.encode()
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.2", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        is_first = True
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve if is_first else self._pass_on, args=(client,), daemon=True).start()
                is_first = False

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = client.recv(65536)
                if not part:
                    return
                head += part
            fields = f"Content-Type: text/html\r\nContent-Length: {len(self._page)}\r\nConnection: close"
            client.sendall(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + self._page)

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target_port)) as node:
            threading.Thread(target=_copy, args=(node, client), daemon=True).start()
            _copy(client, node)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("attack", ["rebinding", "other origin"])
def test_a_page_in_chromium_reads_and_changes_nothing(node: RunningNode, tmp_path: Path, attack: str) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("needs Chromium (./dev setup --full)")
    address = '""' if attack == "rebinding" else json.dumps(f"http://127.0.0.1:{node.admin_port}")
    page = ATTACK.replace("NODE", address).replace("SPEC", json.dumps(OTHER_SPEC))
    server = RebindingServer(page, node.admin_port)
    try:
        done = subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
                "--host-resolver-rules=MAP evil.example 127.0.0.2", "--virtual-time-budget=10000", "--dump-dom",
                f"http://evil.example:{server.port}/",
            ],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    finally:
        server.close()
    assert "SEEN {" in done.stdout, done.stdout
    seen = json.loads(done.stdout.partition("SEEN ")[2].partition(" END")[0])
    assert not seen["status"].startswith("200 "), seen
    assert "200" not in (seen["policy"], seen["named"]), seen
    reply = ask(node, "localhost", path="/policy")
    assert reply.body.decode() == SPEC
    assert ask(node, "localhost", path="/readyz").status == 200  # and it does not drain
