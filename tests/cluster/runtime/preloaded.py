"""LD_PRELOAD libraries that change one aspect of a member's environment while it runs.

Each is a small C source here. A number in a file controls it; the test writes the number and the member sees it at
once.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent


class Preloaded:
    """One library, with a number per member. `name` is the name of its source and, in capitals, of its variable."""

    def __init__(self, folder: Path, name: str) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("needs a C compiler (./dev setup --full)")
        self._folder = folder
        self._name = name
        self._library = folder / f"{name}.so"
        source = SOURCES / f"{name}.c"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True, timeout=60
        )

    def before(self, member: str) -> tuple[str, ...]:
        """The command prefix for a member; its number starts at 0."""
        self.set(member, 0)
        return ("env", f"LD_PRELOAD={self._library}", f"{self._name.upper()}={self._file(member)}")

    def set(self, member: str, number: int) -> None:
        file = self._file(member)
        with file.open("r+b" if file.exists() else "w+b", buffering=0) as opened:
            opened.write(struct.pack("=q", number))

    def _file(self, member: str) -> Path:
        return self._folder / f"{self._name}-{member}"
