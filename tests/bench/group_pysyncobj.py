"""pysyncobj (Raft in Python) as a contender of ``./dev bench group``. Not installed with the project: see `missing`."""

from __future__ import annotations

import asyncio
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TUNED = {"autoTickPeriod": 0.002, "appendEntriesPeriod": 0.002, "commandsQueueSize": 1_000_000}
LOOK_AGAIN_S = 0.02


def missing() -> str:
    """Why pysyncobj cannot be measured; empty if it can."""
    return "" if find_spec("pysyncobj") else "pysyncobj is not installed (.venv/bin/python -m pip install pysyncobj)"


class PySyncObj:
    suspicions = 0
    address = ""

    def __init__(self, role: dict[str, Any]) -> None:
        self._replica = _make(role)
        self.refused = 0

    @classmethod
    async def begin(cls, role: dict[str, Any]) -> PySyncObj:
        return cls(role)

    @property
    def leads(self) -> bool:
        status = self._replica.getStatus()
        return status["leader"] is not None and status["leader"] == status["self"]

    async def whole(self, _count: int) -> None:
        while not self._replica.isReady():  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(LOOK_AGAIN_S)

    def post(self, body: bytes, done: Callable[[], None]) -> None:
        def ended(_result: object, error: int) -> None:
            self.refused += bool(error)
            done()

        self._replica.put(body, callback=ended)  # in its own thread


def _make(role: dict[str, Any]) -> Any:
    library = importlib.import_module("pysyncobj")

    class Count(library.SyncObj):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            addresses = [f"127.0.0.1:{port}" for port in role["ports"]]
            own = addresses.pop("abc".index(role["name"]))
            super().__init__(own, addresses, library.SyncObjConf(**(TUNED if role["tuned"] else {})))
            self.count = 0

        @library.replicated  # type: ignore[untyped-decorator]
        def put(self, _body: bytes) -> int:
            self.count += 1
            return self.count

    return Count()
