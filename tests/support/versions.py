"""Files with their version in every line, writers that replace them, and readers that record what they saw."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.raw import Closed, RawConnection

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.raw import Reply

LINE = 64


class Mixture(Exception):
    """Content of more than one version."""


def stamped(version: int, size: int) -> bytes:
    """``size`` bytes in lines of 64, each with its version."""
    line = (b"version %d" % version).ljust(LINE - 1) + b"\n"
    return line * (size // LINE)


def version_of(content: bytes) -> int:
    """The version of ``content``: complete or, if it was being written, a prefix of it."""
    version = int(content[8:LINE])
    expected = stamped(version, len(content) + LINE - 1)
    if content != expected[: len(content)]:
        raise Mixture(f"begins with version {version}, {len(content)} bytes")
    return version


def replace(path: Path, content: bytes) -> None:
    """Correct: write a new file, then rename it."""
    spare = path.with_name(f".{path.name}.new")
    spare.write_bytes(content)
    spare.replace(path)


def rewrite(path: Path, content: bytes) -> None:
    """Incorrect: truncate, then write."""
    with open(path, "wb", buffering=0) as file:
        file.write(content)


def overwrite(path: Path, content: bytes) -> None:
    """Incorrect: write over the old content."""
    with open(path, "r+b", buffering=0) as file:
        file.write(content)
        file.truncate()


def recreate(path: Path, content: bytes) -> None:
    """Delete the file, and create it again after a while."""
    path.unlink()
    time.sleep(0.002)
    replace(path, content)


@dataclass(frozen=True)
class Seen:
    """A complete response."""

    asked_at: float
    status: int
    tag: str
    size: int
    version: int | None  # None: not 200, or empty


@dataclass
class Readers:
    """Clients that request one page repeatedly, each on its own connection."""

    port: int
    target: str
    count: int = 3
    seen: list[list[Seen]] = field(default_factory=list)  # by client, in order
    broken: int = 0
    mixtures: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Readers:
        self.seen = [[] for _ in range(self.count)]
        self._threads = [threading.Thread(target=self._read, args=(mine,)) for mine in self.seen]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        assert self.mixtures == []

    @property
    def latest(self) -> list[int | None]:
        """The last version that each client saw."""
        return [mine[-1].version if mine else None for mine in self.seen]

    def _read(self, mine: list[Seen]) -> None:
        while not self._stopping.is_set():
            with RawConnection(self.port) as connection:
                try:
                    while not self._stopping.is_set():
                        asked_at = time.monotonic()
                        mine.append(_look_at(connection.get(self.target), asked_at))
                except (Closed, BrokenPipeError):
                    self.broken += 1
                except Mixture as mixture:
                    self.mixtures.append(str(mixture))
                    return


def _look_at(reply: Reply, asked_at: float) -> Seen:
    version = version_of(reply.body) if reply.status == 200 and reply.body else None
    return Seen(asked_at, reply.status, reply.headers.get("etag", ""), len(reply.body), version)


def write_versions(
    path: Path, size: int, change: Callable[[Path, bytes], None], count: int, every_s: float
) -> list[float]:
    """Write versions 1, 2, 3, ...; returns when each was complete. Version 0 must exist."""
    done_at = [0.0]
    for version in range(1, count + 1):
        due = time.monotonic() + every_s
        change(path, stamped(version, size))
        done_at.append(time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    return done_at
