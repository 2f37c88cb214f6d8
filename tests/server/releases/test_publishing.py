"""Releases with real nodes: publish, visit, roll back, kill, restart, and a node whose disk is full."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.error
import urllib.request
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from qosweb.releases.manifest import digest_of
from tests.support.clusters import RunningCluster
from tests.support.nodes import COMMAND, RunningNode, environment, run_command, version
from tests.support.smalldisk import small_disk
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HERE = "127.0.0.1"
SPEC = "</a>.server_resource = 50%\n"


class SiteCluster(RunningCluster):
    """A cluster whose nodes serve releases, each with a data directory of its own."""

    def _begin(
        self, name: str, *options: str, before: Sequence[str] = (), command: Sequence[str] = COMMAND
    ) -> RunningNode:
        data = () if "--data-dir" in options else ("--data-dir", str(self.scratch / name / "data"))
        return super()._begin(name, "--site", *data, *options, before=before, command=command)


def write_site(folder: Path, release: str) -> Path:
    """A page and a part of it, both with the name of the release, and a large file that never changes."""
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(f"page {release}")
    (folder / "parts" / "style.css").write_text(f"part {release}")
    (folder / "large.bin").write_bytes(b"0123456789abcdef" * 150_000)
    (folder / ".hidden").write_text("not published")
    return folder


def qosweb(node: RunningNode, *words: str) -> subprocess.CompletedProcess[str]:
    return run_command(*words, "--admin", f"{HERE}:{node.admin_port}", timeout_s=120)


def publish(node: RunningNode, folder: Path, *options: str) -> dict[str, Any]:
    done = qosweb(node, "publish", str(folder), "--json", *options)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    return made


def releases(node: RunningNode) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.admin("/releases"))
    return found


def serves(node: RunningNode, number: int) -> None:
    wait_for(lambda: releases(node)["served"] == number or None, f"release {number}")


def cookie(number: int) -> str:
    return f"Cookie: qosweb-release={number}"


PART = "Sec-Fetch-Mode: no-cors"


def ask_admin(node: RunningNode, method: str, path: str, body: bytes = b"") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{HERE}:{node.admin_port}{path}", body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_single_node(tmp_path: Path) -> None:
    options = ("--site", "--data-dir", str(tmp_path / "data"))
    site = write_site(tmp_path / "site", "one")
    with RunningNode(None, tmp_path, *options) as node:
        assert node.get("/").status == 404
        assert "no release yet" in qosweb(node, "releases").stdout
        (tmp_path / "nothing").mkdir()
        refused = qosweb(node, "publish", str(tmp_path / "nothing"))
        assert (refused.returncode, "no files to publish" in refused.stderr) == (2, True)
        assert "3 added" in qosweb(node, "publish", str(site), "--dry-run").stdout
        assert releases(node)["current"] is None
        made = publish(node, site, "--message", "the first")
        assert (made["number"], made["added"], made["uploaded"]) == (1, 3, 3)
        page = node.get("/")
        assert page.body == b"page one"
        assert page.headers["qosweb-release"] == "1"
        assert page.headers["set-cookie"].startswith("qosweb-release=1; ")
        assert node.get("/parts/style.css").headers.get("set-cookie") is None
        assert len(node.get("/large.bin").body) == 2_400_000
        assert node.get("/.hidden").status == 404
        assert node.get("/parts").status == 301
        with node.connect() as connection:  # the fast path sends the same fields
            for _ in range(4):
                fast = connection.get("/")
                assert (fast.body, fast.headers["set-cookie"]) == (page.body, page.headers["set-cookie"])
            assert connection.get("/", f"If-None-Match: {page.headers['etag']}").status == 304
            write_site(site, "two")
            assert publish(node, site)["uploaded"] == 2
            assert connection.get("/").body == b"page two"
            assert connection.get("/", cookie(2)).headers.get("set-cookie") is None
            assert connection.get("/parts/style.css", PART, cookie(1)).body == b"part one"
            assert connection.get("/parts/style.css", PART, cookie(2)).body == b"part two"
            assert connection.get("/parts/style.css").headers["cache-control"] == "no-cache"
        assert "same files" in qosweb(node, "publish", str(site)).stdout
        assert "release 3" in qosweb(node, "rollback").stdout
        assert node.get("/").body == b"page one"
        assert qosweb(node, "rollback", "77").returncode == 1
        shown = qosweb(node, "releases").stdout.splitlines()
        assert shown[0].startswith("*    3")
        assert "rollback to release 1: the first" in shown[0]
        node.stop(SIGKILL)
    with RunningNode(None, tmp_path, *options) as node:
        serves(node, 3)
        assert node.get("/").body == b"page one"
        assert node.get("/parts/style.css", PART, cookie(2)).body == b"part two"  # the grace time is not over


def received(node: RunningNode, manifest: bytes) -> dict[str, int] | None:
    """Bytes of the files whose upload was interrupted; None: none was."""
    found: dict[str, int] = json.loads(ask_admin(node, "POST", "/releases/plan", manifest)[1])["received"]
    return found or None


def unless_busy(response: tuple[int, str]) -> int | None:
    return None if response[0] == 503 else response[0]


def test_uploads_continue_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    with RunningNode(None, tmp_path, "--site", "--data-dir", str(tmp_path / "data"), "--site-max-size", "1MB") as node:
        content = b"x" * 1000
        path = f"/releases/blobs/{digest_of(content)}"
        assert ask_admin(node, "PUT", path + "?offset=5", b"abc")[0] == 409
        status, text = ask_admin(node, "PUT", path, b"wrong")
        assert status == 422
        assert "digest" in text
        manifest = f'{{"files":[["a","{digest_of(content)}",1000,1]],"version":1}}'.encode()
        plan = json.loads(ask_admin(node, "POST", "/releases/plan", manifest)[1])
        assert (plan["missing"], plan["received"]) == ([digest_of(content)], {})
        with socket.create_connection((HERE, node.admin_port)) as connection:  # an upload that does not end
            head = f"PUT {path} HTTP/1.1\r\nHost: {HERE}:{node.admin_port}\r\nContent-Length: 1000\r\n\r\n"
            connection.sendall(head.encode() + content[:400])
            assert wait_for(lambda: received(node, manifest), "the first bytes") == {digest_of(content): 400}
            assert ask_admin(node, "PUT", path, content)[0] == 503
        rest = wait_for(lambda: unless_busy(ask_admin(node, "PUT", path + "?offset=400", content[400:])), "the rest")
        assert rest == 200
        plan = json.loads(ask_admin(node, "POST", "/releases/plan", manifest)[1])
        assert (plan["missing"], plan["received"]) == ([], {})
        assert ask_admin(node, "PUT", "/releases/blobs/xyz", content)[0] == 400
        assert ask_admin(node, "PUT", f"/releases/blobs/{digest_of(b'large')}", b"x" * 2_000_000)[0] == 413
        assert ask_admin(node, "POST", "/releases", b"{}")[0] == 422
        manifest = f'{{"files":[["a","{digest_of(b"absent")}",6,1]],"version":1}}'.encode()
        status, text = ask_admin(node, "POST", "/releases", manifest)
        assert status == 424
        assert "have not been uploaded" in text
        manifest = f'{{"files":[["a","{digest_of(b"absent")}",6000000,1]],"version":1}}'.encode()
        status, text = ask_admin(node, "POST", "/releases/plan", manifest)
        assert status == 409
        assert "--site-max-size" in text
        assert ask_admin(node, "POST", "/releases/rollback", b"[]")[0] == 400
        for target in (f"/.qosweb/blobs/{digest_of(content)}", "/.qosweb/blobs/x"):
            assert node.get(target).status == 401


def test_several_operators_publish_at_one_node_at_once(tmp_path: Path) -> None:
    """Each file is uploaded by one of them; the others wait for it."""
    site = write_site(tmp_path / "site", "one")
    for at in range(50):
        (site / f"{at}.html").write_text(f"page {at}")
    with RunningNode(None, tmp_path, "--site", "--data-dir", str(tmp_path / "data")) as node:
        command = [*COMMAND, "publish", str(site), "--admin", f"{HERE}:{node.admin_port}"]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
            for _ in range(4)
        ]
        said = [one.communicate(timeout=120)[0] for one in running]
        assert [one.returncode for one in running] == [0, 0, 0, 0], said
        assert node.get("/49.html").body == b"page 49"


def test_an_upload_whose_client_is_gone_does_not_hinder_the_next_one(tmp_path: Path) -> None:
    content = b"x" * 1000
    path = f"/releases/blobs/{digest_of(content)}"
    command = version(("qosweb.server.admin.release_routes", "UPLOAD_STALLED_S", 0.1))
    with (
        RunningNode(None, tmp_path, "--site", "--data-dir", str(tmp_path / "data"), command=command) as node,
        socket.create_connection((HERE, node.admin_port)) as connection,
    ):
        head = f"PUT {path} HTTP/1.1\r\nHost: {HERE}:{node.admin_port}\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(head.encode() + content[:400])  # and nothing more, and the connection stays open
        assert b" 408 " in connection.recv(100)
        status, text = ask_admin(node, "PUT", path + "?offset=400", content[400:])
        assert (status, json.loads(text)) == (200, {"complete": True})


def test_a_folder_that_cannot_be_read_is_not_left_out(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    (site / "parts").chmod(0)
    before = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()  # root may read all
    done = subprocess.run(
        [*before, *COMMAND, "publish", str(site), "--admin", f"{HERE}:1"],
        capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    (site / "parts").chmod(0o755)
    assert done.returncode == 2
    assert f"{site / 'parts'}: Permission denied" in done.stderr


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    with RunningNode(site, tmp_path) as node:
        refused = qosweb(node, "publish", str(site))
        assert refused.returncode == 1
        assert "start it with --site" in refused.stderr
        assert qosweb(node, "publish", str(tmp_path / "absent")).returncode == 2
        (site / "link").symlink_to(tmp_path)
        refused = qosweb(node, "publish", str(site))
        assert refused.returncode == 2
        assert "link to a folder" in refused.stderr
    for options, what in (
        (("--site",), "--data-dir"),
        (("--site", "--root", str(site), "--data-dir", str(tmp_path / "d")), "only one"),
    ):
        refused = run_command("serve", *options)
        assert refused.returncode == 2
        assert what in refused.stderr


def test_three_nodes_switch_together_and_survive_kills(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    with SiteCluster(None, tmp_path, SPEC, "abc") as cluster:
        nodes = cluster.nodes
        made = publish(nodes["a"], site)
        assert made["nodes"] == ["a", "b", "c"]
        for node in nodes.values():
            serves(node, 1)
            assert node.get("/parts/style.css").body == b"part one"
            assert len(node.get("/large.bin").body) == 2_400_000
        write_site(site, "two")
        assert publish(nodes["b"], site)["number"] == 2  # at another node
        for node in nodes.values():
            serves(node, 2)
            assert node.get("/parts/style.css", PART, cookie(1)).body == b"part one"
            assert node.get("/").body == b"page two"
        nodes["c"].stop(SIGKILL)
        cluster.together("ab")
        write_site(site, "three")
        assert publish(nodes["a"], site)["number"] == 3
        cluster.add("c")
        cluster.together("abc")
        node = nodes["c"]  # it fetches what it missed
        assert node.get("/parts/style.css", PART, cookie(3)).body == b"part three"
        assert node.get("/").body == b"page three"
        assert "release 4" in qosweb(node, "rollback").stdout
        for node in nodes.values():
            serves(node, 4)
            assert node.get("/").body == b"page two"
            assert node.get("/parts/style.css", PART, cookie(4)).body == b"part two"
        listed = [{**releases(node), "releases": None} for node in nodes.values()]
        assert listed[1:] == listed[:-1]
        # Nothing of the transfers between nodes is in the access logs.
        assert not any("/.qosweb/" in line["path"] for line in cluster.requests())

        for name in "ba":
            nodes[name].stop(SIGKILL)
        node = nodes["c"]  # not the one of the lowest rank, which might continue alone
        wait_for(lambda: not json.loads(node.admin("/status"))["primary"] or None, "the primary view to be lost")
        write_site(site, "four")
        refused = qosweb(node, "publish", str(site))
        assert refused.returncode == 1
        assert "not in a primary view" in refused.stderr
        tried = qosweb(node, "publish", str(site), "--dry-run")
        assert tried.returncode == 1
        assert tried.stdout.startswith("0 added, 2 changed")
        assert "not in a primary view" in tried.stderr
        assert node.get("/", cookie(4)).body == b"page two"
        behind = node.get("/", cookie(5))
        assert behind.status == 503
        assert behind.headers["retry-after"] == "1"


def test_a_full_disk_stops_a_release_before_the_switch(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site", "one")
    with SiteCluster(None, tmp_path, SPEC, "ab") as cluster:
        disk = tmp_path / "small"
        before = small_disk(disk, "80m")
        cluster.add("c", "--data-dir", str(disk), before=before)
        cluster.together("abc")
        node = cluster.nodes["a"]
        publish(node, site)
        (site / "huge.bin").write_bytes(b"x" * 90_000_000)
        refused = qosweb(node, "publish", str(site))
        assert refused.returncode == 1
        assert "node c: the disk has" in refused.stderr
        assert "--force" in refused.stderr
        small = cluster.nodes["c"]
        for options in ((), ("--force",), ("--dry-run",)):
            refused = qosweb(small, "publish", str(site), *options)
            assert refused.returncode == 1
            assert refused.stderr.startswith("qosweb: not published: node c: the disk has")
        assert releases(node)["current"] == 1
        made = publish(node, site, "--force")
        assert made["number"] == 2
        serves(cluster.nodes["b"], 2)
        assert len(cluster.nodes["b"].get("/huge.bin").body) == 90_000_000
        # The node that lacks a file serves the others, and forwards the requests for this one.
        serves(small, 2)
        assert small.get("/").body == b"page one"
        answer = small.get("/huge.bin", cookie(2))
        assert answer.status == 200
        assert answer.headers["qosweb-release"] == "2"
        assert len(answer.body) == 90_000_000
        assert "this node lacks files of release 2" in qosweb(small, "releases").stdout
        # It lacks files of the current release, and still says that it cannot take the next one.
        write_site(site, "three")
        assert "node c: the disk has" in qosweb(node, "publish", str(site)).stderr
        (site / "huge.bin").unlink()
        publish(node, site)
        serves(small, 3)
        assert small.get("/").body == b"page three"
