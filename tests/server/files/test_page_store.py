"""Page store in this process: cases whose timing would be too rare over a socket."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from qosweb.http.targets import parse_target
from qosweb.server.files import page_store, pages
from qosweb.server.files.files import NotServed, Root
from qosweb.server.files.page_store import Loaded, PageStore
from qosweb.server.files.pages import Resource, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = parse_target("/page.txt")


def read(root: Path, file_max: int = 1000) -> Resource:
    resource = load(Root(root), PAGE, "index.html", file_max)
    assert isinstance(resource, Resource)
    return resource


@pytest.mark.parametrize("file_max", [1000, 0])
def test_a_file_written_just_now_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_max: int) -> None:
    """Two writes within the clock's resolution look alike: the first must not be taken for the last."""
    page = tmp_path / "page.txt"
    page.write_bytes(b"half")
    sleeps: list[float] = []

    def write_on(seconds: float) -> None:
        if not sleeps:
            page.write_bytes(b"half and half")
        sleeps.append(seconds)

    monkeypatch.setattr(pages, "GRAIN_S", 60.0)
    monkeypatch.setattr(time, "sleep", write_on)
    assert read(tmp_path, file_max).plain.size == len(b"half and half")
    assert len(sleeps) == pages.READ_TRIES - 1  # it remains this moment's, and is served at last


def test_choices_are_few_and_short(tmp_path: Path) -> None:
    for name in ("page.txt", "page.txt.gz"):
        (tmp_path / name).write_bytes(b"content")
    resource = read(tmp_path)
    for at in range(1000):
        assert resource.page_for(f"gzip, x{at}").encoding == "gzip"
        assert resource.page_for(f"gzip, {'x' * at * 30}").encoding == "gzip"
    assert 0 < sum(len(choice or "") for choice in resource._choices) < 5000


class SlowDisk:
    """Replaces ``load``: two reads that block until released and return a chosen result."""

    def __init__(self) -> None:
        self.results: list[Callable[[], Resource]] = []
        self._reads = 0
        self._began = [threading.Event(), threading.Event()]
        self._go = [threading.Event(), threading.Event()]

    def load(self, *_: object) -> Resource:
        number, self._reads = self._reads, self._reads + 1
        self._began[number].set()
        assert self._go[number].wait(20)
        return self.results[number]()

    async def until_reading(self, number: int) -> None:
        assert await asyncio.to_thread(self._began[number - 1].wait, 20)

    def let_go(self, number: int) -> None:
        self._go[number - 1].set()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    disk = SlowDisk()
    monkeypatch.setattr(page_store, "load", disk.load)
    return disk


def new_store(root: Path, fresh_s: float) -> PageStore:
    return PageStore(Root(root), index="index.html", memory_max=1 << 20, file_max=1 << 20, fresh_s=fresh_s)


class Client:
    """Requests at once and waits."""

    def __init__(self, pages: PageStore) -> None:
        self._answer: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        pages.fetch(PAGE, self.waiter)

    def waiter(self, result: Loaded) -> None:
        self._answer.set_result(result)

    @property
    def has_answer(self) -> bool:
        return self._answer.done()

    async def answer(self) -> Loaded:
        return await asyncio.wait_for(self._answer, 20)


async def _who_comes_later(root: Path, disk: SlowDisk, fresh_s: float, reads: int) -> None:
    (root / "page.txt").write_bytes(b"content")
    old, new = read(root), read(root)
    disk.results = [lambda: old, lambda: new]
    pages = new_store(root, fresh_s)
    first = Client(pages)
    await disk.until_reading(1)
    others = [Client(pages) for _ in range(5)]
    left = Client(pages)
    pages.forget(PAGE.escaped_path, left.waiter)
    disk.let_go(1)
    assert await first.answer() is old
    if reads == 2:
        await disk.until_reading(2)
        assert not any(other.has_answer for other in others)
        disk.let_go(2)
    assert {id(await other.answer()) for other in others} == {id(old if reads == 1 else new)}
    assert (pages.reads, left.has_answer) == (reads, False)
    pages.close()


@pytest.mark.parametrize(("fresh_s", "reads"), [(3600.0, 1), (0.0, 2)])
def test_a_read_that_began_too_early_does_not_serve_later_requests(
    tmp_path: Path, disk: SlowDisk, fresh_s: float, reads: int
) -> None:
    asyncio.run(_who_comes_later(tmp_path, disk, fresh_s, reads))


async def _one_that_fails(root: Path, disk: SlowDisk, error: Exception) -> None:
    shown: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: shown.append(context))

    def fail() -> Resource:
        raise error

    def fault(_: Loaded) -> None:
        raise RuntimeError("a fault of the connection")

    (root / "page.txt").write_bytes(b"content")
    good = read(root)
    disk.results = [fail, lambda: good]
    pages = new_store(root, 3600.0)
    pages.fetch(PAGE, fault)
    client = Client(pages)
    await disk.until_reading(1)
    disk.let_go(1)
    assert isinstance(await client.answer(), NotServed if isinstance(error, NotServed) else OSError)
    assert len(shown) == (1 if isinstance(error, (NotServed, OSError)) else 2)
    client = Client(pages)
    await disk.until_reading(2)
    disk.let_go(2)
    assert await client.answer() is good
    pages.close()


@pytest.mark.parametrize("error", [NotServed("page"), OSError(5, "I/O error"), MemoryError(), ValueError("a fault")])
def test_every_waiter_gets_a_result(tmp_path: Path, disk: SlowDisk, error: Exception) -> None:
    """Whatever fails, in the read or in a waiting request, the next read works."""
    asyncio.run(_one_that_fails(tmp_path, disk, error))
