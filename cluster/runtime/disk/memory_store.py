"""A store that keeps nothing: the `volatile` mode. A process that ends is gone, and comes back as another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.durable import Image, Record
from cluster.runtime.disk.rows import all_recoveries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.runtime.disk.rows import Recovery


class AnyStore(Protocol):
    """What a driver needs of a store. `write` makes all of the records durable in one transaction, or none."""

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
    """The image that it is made with, and no more."""

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
        """Nothing is kept, so nothing has to be waited for: a driver need not call this."""

    def close(self) -> None:
        pass
