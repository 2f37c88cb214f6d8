"""Append-only line files that survive process restarts and kills in the middle of a line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def end_torn_line(path: Path) -> None:
    """Terminate a partial last line that a killed process left, so that the next line starts on its own."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
