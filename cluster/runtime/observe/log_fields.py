"""Structured fields at the end of a log line, for programs: `event=view epoch=3 members=a,b`.

The human-readable sentence comes before them. A value that contains a space, a quote or an equals sign is written as a
JSON string.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cluster.names import ProcessId, View

_PLAIN = re.compile(r"[^\s\"=\\]*")


def fields(event: str, **values: object) -> str:
    return " ".join(f"{key}={_quote(str(value))}" for key, value in {"event": event, **values}.items())


def of_view(view: View) -> dict[str, object]:
    """The fields that identify a view. Equal ids mean equal views."""
    return {"view": f"{view.id.epoch}:{view.id.digest}", "epoch": view.id.epoch, "members": of_set(view.members)}


def of_set(processes: Iterable[ProcessId]) -> str:
    return ",".join(map(str, processes))


def _quote(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else msgspec.json.encode(text).decode()
