"""What wrk's answers took until they came, beside what wrk says, which is until it read them (`wrk_stamps.c`)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("wrk_stamps.c")


class Stamps(NamedTuple):
    """In milliseconds, since a request was written."""

    requests: int
    read_p50_ms: float
    read_p99_ms: float
    came_p50_ms: float
    came_p99_ms: float
    lain_p50_ms: float  # between the two
    lain_p99_ms: float


def build(folder: Path) -> Path | None:
    """What wrk has to load; None where it cannot be made."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        return None
    library = folder / "wrk_stamps.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True, timeout=60)
    return library


def read(errors: str) -> Stamps | None:
    for line in errors.splitlines():
        if line.startswith("stamps "):
            requests, *figures = line.split()[1:]
            return Stamps(int(requests), *map(float, figures))
    return None
