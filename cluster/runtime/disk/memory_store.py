"""In-memory store for the `volatile` mode: keeps nothing. A restarted process is a new process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.durable import Image, Record
from cluster.runtime.disk.rows import all_recoveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.runtime.disk.rows import Recovery


class AnyStore(Protocol):
    """Store interface of the driver. `write` makes all records durable in one transaction, or none."""

    @property
    def founding(self) -> str: ...
    def belong_to(self, founding: str) -> None: ...
    @property
    def recoveries(self) -> tuple[Recovery, ...]: ...
    def learn_recoveries(self, theirs: tuple[Recovery, ...]) -> None: ...
    def load(self) -> Image: ...
    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class MemoryStore:
    """Holds the image that it is made with, and stores nothing."""

    __slots__ = ("_image", "founding", "recoveries")

    def __init__(self, image: Image | None = None, founding: str = "") -> None:
        self._image = image or Image()
        self.founding = founding
        self.recoveries: tuple[Recovery, ...] = ()

    def belong_to(self, founding: str) -> None:
        self.founding = founding

    def learn_recoveries(self, theirs: tuple[Recovery, ...]) -> None:
        self.recoveries = all_recoveries(self.recoveries, theirs)

    def load(self) -> Image:
        return self._image

    def write(self, records: Sequence[Record]) -> None:
        """Does nothing; a driver need not call it."""

    def close(self) -> None:
        pass
