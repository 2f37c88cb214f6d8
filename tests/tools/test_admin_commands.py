"""`qosweb status`, `reload` and `drain`: without a node, with another service, without a token, and with one node."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from qosweb.cli import main
from tests.support.misbehaving import MisbehavingServer, Talk, free_port
from tests.support.nodes import COMMAND, RunningNode, environment
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef-token"


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message of a command that must fail with exit code 2."""
    code = main(list(arguments))
    output, errors = capfd.readouterr()
    assert (code, output) == (2, "")
    assert errors.startswith("qosweb: error: ")
    assert errors.count("\n") == 1
    return errors.removeprefix("qosweb: error: ").rstrip()


def answer(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


STRANGERS = {
    "closes": (b"", "it closed the connection without a response"),
    "greets": (b"SSH-2.0-OpenSSH_9.2\r\n", "its response is not valid HTTP"),
    "not-found": (answer("404 Not Found", b"no"), "it responds to GET /status with 404"),
    "moved": (
        b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        "it responds to GET /status with 301",
    ),
    "no-json": (answer("200 OK", b"<p>hello"), "its response is not a JSON object"),
    "list": (answer("200 OK", b"[1]"), "its response is not a JSON object"),
    "deep": (answer("200 OK", b"[" * 100_000), "its response is not a JSON object"),
    "other": (answer("200 OK", b'{"status":"green"}'), "its response is not the status of a node"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_another_service(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    said, why = STRANGERS[kind]

    def script(talk: Talk) -> None:
        talk.send(said)
        talk.close()

    with MisbehavingServer(script) as server:
        found = refused(capfd, "status", "--admin", f"127.0.0.1:{server.port}")
    assert found.startswith(f"127.0.0.1:{server.port} is not the admin port of a qosweb node: {why}")


def test_a_node_of_another_version(capfd: pytest.CaptureFixture[str]) -> None:
    def script(talk: Talk) -> None:
        talk.send(answer("200 OK", b'{"name": "n1", "capacity": {}, "classes": {"a": {}}}'))

    with MisbehavingServer(script) as server:
        found = refused(capfd, "status", "--admin", f"127.0.0.1:{server.port}")
    assert found.startswith("the status of the node has an unknown format")


def test_no_node_responds(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    port = free_port()
    spec = tmp_path / "a.webqos"
    spec.write_text("</a>.available = always\n")
    for command in (["status"], ["status", "--watch"], ["drain"], ["reload", str(spec)]):
        found = refused(capfd, *command, "--admin", f"127.0.0.1:{port}")
        assert found.startswith(
            f"no node responds at 127.0.0.1:{port}: Connection refused; give the address of its admin port"
        )


def test_invalid_options_are_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "is not an address" in refused(capfd, "status", "--admin", "nowhere")
    assert "no node listens on port 0" in refused(capfd, "status", "--admin", "127.0.0.1:0")
    assert "No such file" in refused(capfd, "status", "--token-file", str(tmp_path / "none"))
    (tmp_path / "empty").write_text("\n")
    assert "one line of visible ASCII" in refused(capfd, "status", "--token-file", str(tmp_path / "empty"))
    for seconds in ("0", "x", "-1", "nan", "1e9"):
        assert "give seconds between" in refused(capfd, "status", f"--watch={seconds}")
    assert "No such file" in refused(capfd, "reload", str(tmp_path / "none.webqos"))
    assert refused(capfd, "status", "--jsn") == "unknown option '--jsn'; did you mean '--json'?"


def test_one_node_with_a_token(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "wrong").write_text(f"{TOKEN}x\n")
    (tmp_path / "a.webqos").write_text("</page.html>.server_resource > 40%\n</index.html>.available = always\n")
    options = ("--admin-token-file", str(tmp_path / "token"), "--spec", str(tmp_path / "a.webqos"))
    with RunningNode(write_site(tmp_path / "site"), tmp_path, *options) as node:
        admin = ["--admin", f"http://127.0.0.1:{node.admin_port}/"]
        token = ["--token-file", str(tmp_path / "token")]
        assert "needs a token: --token-file FILE" in refused(capfd, "status", *admin)
        assert "does not accept the token" in refused(capfd, "status", *admin, "--token-file", str(tmp_path / "wrong"))
        assert main(["status", *admin, *token, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["scope"] == "alone"
        assert main(["status", *admin, *token]) == 0
        drawn = capfd.readouterr().out
        assert "n1 is not a member of a cluster" in drawn
        assert "/page.html" in drawn
        assert TOKEN not in drawn

        (tmp_path / "b.webqos").write_text("</page.html>.server_resource > 60%\n")
        assert main(["reload", *admin, *token, "--json", str(tmp_path / "b.webqos")]) == 0
        answered = json.loads(capfd.readouterr().out)
        assert (answered["index"], len(answered["policy"])) == (None, 16)

        output = tmp_path / "watched"
        with output.open("wb") as stream:
            watching = subprocess.Popen(
                [*COMMAND, "status", *admin, *token, "--watch", "0.1"], stdout=stream, stderr=subprocess.PIPE,
                env=environment(),
            )  # fmt: skip
        try:
            wait_for(lambda: output.read_text().count("is not a member of a cluster") >= 3, "three looks", 60)
            assert "served/s" in output.read_text()
            assert main(["drain", *admin, *token]) == 0
            assert node.process.wait(30) == 0
            _, errors = watching.communicate(timeout=30)  # it ends because the node has stopped
            assert watching.returncode == 2
            assert b"Traceback" not in errors
        finally:
            if watching.poll() is None:
                watching.kill()
                watching.communicate()
