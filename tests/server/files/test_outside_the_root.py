"""Files outside the root and special files: symbolic links, devices and path traversal are refused."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from tests.http import test_target_tricks
from tests.http.test_target_tricks import outcome
from tests.support.nodes import RunningNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = b"SECRET: outside of the root\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``house/site`` is served; files next to it must not be."""
    house = tmp_path_factory.mktemp("house")
    root = house / "site"
    (root / "dir").mkdir(parents=True)
    (root / ".well-known").mkdir()
    (house / "outside").mkdir()
    for secret in (house / "secret.txt", house / "outside" / "index.html", root / ".hidden", root / "dir" / ".env"):
        secret.write_bytes(SECRET)
    for name in ("index.html", "A.txt", "dir/index.html", "dir/a.txt", ".well-known/security.txt"):
        (root / name).write_text(name)
    return root


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(root, tmp_path_factory.mktemp("node"), "--cache-fresh", "0", "--cache-file-max", "64KB") as node:
        yield node
        assert node.stderr[1:] == []


def test_links_inside_the_root_are_followed(node: RunningNode, root: Path) -> None:
    (root / "link.txt").symlink_to("A.txt")
    (root / "absolute.txt").symlink_to(root / "A.txt")
    (root / "chain.txt").symlink_to("link.txt")
    (root / "dir" / "up.txt").symlink_to("../A.txt")
    (root / "linked").symlink_to("dir")
    (root / "known").symlink_to(".well-known")
    for target in ("/link.txt", "/absolute.txt", "/chain.txt", "/dir/up.txt"):
        assert node.get(target).body == b"A.txt"
    assert node.get("/linked/a.txt").body == b"dir/a.txt"
    assert node.get("/linked/").body == b"dir/index.html"
    assert node.get("/linked").headers["location"] == "/linked/"
    assert node.get("/known/security.txt").body == b".well-known/security.txt"


def test_links_out_of_the_root_or_to_hidden_files_are_refused(node: RunningNode, root: Path) -> None:
    links: dict[str, str | Path] = {
        "out.txt": "../secret.txt",
        "out-absolute.txt": root.parent / "secret.txt",
        "out-chain.txt": "out.txt",
        "out-dir": "../outside",
        "out-dir-chain": "out-dir",
        "parent": "..",
        "slash": "/",
        "proc-root": "/proc/self/root",
        "to-hidden": ".hidden",
        "to-env": "dir/.env",
        "loop": "loop",
        "dangling": "nowhere",
        "page.txt.gz": "../secret.txt",  # nor as the encoded form of a page
    }
    for name, to in links.items():
        (root / name).symlink_to(to)
    (root / "page.txt").write_text("page")
    below = ("out-dir/", "out-dir/index.html", "out-dir-chain/", "parent/secret.txt", "slash/etc/passwd", "parent/")
    for target in (*links, *below, f"proc-root{root.parent}/secret.txt"):
        reply = node.get(f"/{target}")
        assert reply.status == 404, target
        assert SECRET not in reply.body
    assert node.get("/page.txt", "Accept-Encoding: gzip").body == b"page"


def test_a_root_that_is_a_link_is_followed_once(root: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(root)
    with RunningNode(tmp_path / "current", tmp_path) as node:
        assert node.get("/A.txt").body == b"A.txt"
        assert node.get("/.hidden").status == 404


def test_a_link_that_is_changed_while_it_is_read(node: RunningNode, root: Path) -> None:
    """It points in and out of the root, alternating a thousand times a second: only the file inside is ever served."""
    inside = {"in.txt": b"inside " * 10, "in.bin": b"inside " * 20_000}
    outside = root.parent / "out.bin"
    outside.write_bytes(SECRET * 5_000)
    for name, content in inside.items():
        (root / name).write_bytes(content)
    ways = [("swap.txt", root / "in.txt", root.parent / "secret.txt"), ("swap.bin", root / "in.bin", outside)]
    stopping = threading.Event()

    def swap() -> None:
        spare = root / "spare"
        while not stopping.is_set():
            for way in (1, 2):
                for link in ways:
                    spare.symlink_to(link[way])
                    spare.replace(root / link[0])

    writer = threading.Thread(target=swap)
    writer.start()
    seen = set()
    try:
        with node.connect() as connection:
            for _ in range(500):
                for target, expected in (("/swap.txt", inside["in.txt"]), ("/swap.bin", inside["in.bin"])):
                    reply = connection.get(target)
                    seen.add(reply.status)
                    assert reply.body == expected if reply.status == 200 else SECRET not in reply.body
    finally:
        stopping.set()
        writer.join()
    assert {200, 404} <= seen <= {200, 404, 503}


def test_special_files_are_refused_at_once(node: RunningNode, root: Path) -> None:
    os.mkfifo(root / "fifo")
    os.mkfifo(root / "fifo.html")
    names = ["fifo", "fifo.html", "socket"]
    here = os.open(root, os.O_RDONLY)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        try:
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
            names.append("zero")
        except PermissionError:
            (root / "zero").symlink_to("/dev/zero")
        for name in names:
            assert node.get(f"/{name}").status == 404
    (root / "beside.css").write_text("p {}")
    os.mkfifo(root / "beside.css.gz")
    assert node.get("/beside.css", "Accept-Encoding: gzip").body == b"p {}"


def test_a_file_that_may_not_be_read(root: Path, tmp_path: Path) -> None:
    powerless: tuple[str, ...] = ()
    if os.geteuid() == 0:  # root may read everything, until it gives that up
        setpriv = shutil.which("setpriv") or pytest.skip("needs setpriv (./dev setup --full)")
        powerless = (setpriv, "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
    (root / "locked.html").write_bytes(SECRET)
    (root / "locked").mkdir()
    (root / "locked" / "index.html").write_bytes(SECRET)
    for name in ("locked.html", "locked"):
        (root / name).chmod(0)
    try:
        with RunningNode(root, tmp_path, before=powerless) as node:
            for target in ("/locked.html", "/locked/", "/locked/index.html"):
                reply = node.get(target)
                assert (reply.status, SECRET in reply.body) == (403, False)
            assert node.get("/A.txt").status == 200
    finally:
        for name in ("locked.html", "locked"):
            (root / name).chmod(0o700)


def catalogue() -> list[str]:
    """Every target of the collection of path traversal tricks that fits into a request line."""
    found: list[str] = []
    for name, function in vars(test_target_tricks).items():
        for mark in getattr(function, "pytestmark", []):
            if name.startswith("test_") and mark.args[0] in ("raw", ("raw", "path")):
                found += [case if isinstance(case, str) else case[0] for case in mark.args[1]]
    return [raw for raw in found if not set(raw) & set(" \r\n")]


def test_every_known_escape_is_refused(node: RunningNode) -> None:
    tricks = catalogue()
    assert len(tricks) > 200
    for raw in tricks:
        reply = node.answer(raw.encode("utf-8", "surrogateescape"))
        expected = outcome(raw)
        status = expected if isinstance(expected, int) else 200 if expected == "/" else 404
        assert reply.startswith(b"HTTP/1.1 %d " % status), (raw, reply[:80])
        assert b"root:" not in reply


UPWARDS = (
    "../", "..%2f", "..%5c", "..\\", "%2e%2e/", "%2e%2e%2f", "%252e%252e%252f", "..%252f", "..%c0%af", "..;/", "....//",
    ".%00./", "%c0%ae%c0%ae/", "%uff0e%uff0e/", "/../", "./../", "%2e./", "..%ef%bc%8f", "..%00/",
)  # fmt: skip


@pytest.mark.parametrize("start", ["/", "/dir/", "/A.txt/", "/.well-known/", "http://localhost/", "//"])
def test_no_path_leads_out_of_the_root(node: RunningNode, start: str) -> None:
    for step in UPWARDS:
        for depth in range(1, 4):
            for end in ("secret.txt", "outside/", "site/A.txt"):
                reply = node.answer(f"{start}{step * depth}{end}".encode())
                assert reply[9:12] in (b"400", b"404"), (start, step, depth, end)
                assert SECRET not in reply
