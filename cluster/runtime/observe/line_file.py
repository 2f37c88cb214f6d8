"""Files that lines are appended to over several lives of a process, each of which may have been killed within one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def end_torn_line(path: Path) -> None:
    """A line that a killed process left without its end must not swallow the first one that is appended now."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
