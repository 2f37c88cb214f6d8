"""The bodies of requests: so many bytes made up, or a file's. Held once for all requests that send the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.errors import UsageError
from loadgen.trace.request import BODY_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

_HELD_MAX = 8 * BODY_MAX  # bytes of all together
_LINE = b"bytes that nobody needs, made up by a load generator for a body\n"


class Bodies:
    """Of one process."""

    def __init__(self) -> None:
        self._held: dict[int | str, bytes] = {}
        self._held_bytes = 0

    def of(self, body: int | str) -> bytes:
        """Raises OSError where a file cannot be read."""
        known = self._held.get(body)
        if known is not None:
            return known
        made = _made_up(body) if isinstance(body, int) else _read(body)
        if self._held_bytes + len(made) > _HELD_MAX:
            self._held.clear()
            self._held_bytes = 0
        self._held[body] = made
        self._held_bytes += len(made)
        return made


def check_files(files: Mapping[str, int], trace: str) -> None:
    """Before a run: all of the files, each with the number of the first request that sends it, can be sent."""
    for name, number in files.items():
        where = f"{trace}: request {number + 1} has the body '{name}'"
        try:
            _read(name)
        except OSError as error:
            raise UsageError(
                f"{where}: {error.strerror or error}; names of files count from the folder where loadgen is started"
            ) from None


def _made_up(size: int) -> bytes:
    return (_LINE * (size // len(_LINE) + 1))[:size]


def _read(name: str) -> bytes:
    with open(name, "rb") as file:
        content = file.read(BODY_MAX + 1)
    if len(content) > BODY_MAX:
        raise OSError(f"more than {BODY_MAX >> 20} MB, which is the most that is sent")
    return content
