"""A really full disk for a real process: a small tmpfs in a mount namespace that only this process sees.

The test reaches it through /proc.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SIZE = "160m"  # of what a member misses in a second or two, at 20 KB an entry, there is more than one would think
IN_A_PLACE_OF_ITS_OWN = ("unshare", "--mount", "--map-root-user", "sh", "-c")


def small_disk(folder: Path, size: str = SIZE) -> tuple[str, ...]:
    """A command prefix with which `folder` is a small disk for the process alone."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={size},mode=700 none "$0" && exec "$@"'
    before = (*IN_A_PLACE_OF_ITS_OWN, mount, str(folder))
    try:
        done = subprocess.run([*before, "true"], capture_output=True, text=True, check=False, timeout=20)
    except FileNotFoundError:
        pytest.skip("needs unshare (./dev setup --full)")
    if done.returncode:
        pytest.skip(f"needs mount namespaces (root, or a kernel that lets users have them): {done.stderr.strip()}")
    return before


def fill(process: subprocess.Popen[str] | subprocess.Popen[bytes], folder: Path) -> Path:
    """Fill the disk of this process. Returns the file to remove to make room again."""
    filler = as_seen_by(process, folder) / "filler"
    place = os.statvfs(filler.parent)
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for _ in range(2 * place.f_blocks):
            file.write(bytes(place.f_frsize))
    wait_for(lambda: os.statvfs(filler.parent).f_bavail == 0, "no room is left")
    return filler


def as_seen_by(process: subprocess.Popen[str] | subprocess.Popen[bytes], folder: Path) -> Path:
    return type(folder)(f"/proc/{process.pid}/root{os.fspath(folder)}")
