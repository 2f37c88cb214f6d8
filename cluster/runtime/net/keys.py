"""Cluster key file: created with mode 0600, and refused if other users can read it."""

from __future__ import annotations

import os
import secrets
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

KEY_LEN = 32
KEY_LEN_MIN = 16
KEY_FILE_LEN_MAX = 4096


class BadKey(Exception):
    """A key file that cannot be used; the message says why."""


def make_key_file(path: Path) -> None:
    """Write a new random key. Never overwrites a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadKey(f"{path} exists already: a new key would lock out every member that has the old one") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(KEY_LEN) + "\n")


def read_key_file(path: Path) -> bytes:
    """Read and check a key file. Raises BadKey."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(KEY_FILE_LEN_MAX + 1).strip()
    except OSError as error:
        raise BadKey(
            f"the cluster key {path} cannot be read: {error.strerror}; 'python -m cluster key FILE' makes one"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise BadKey(f"the cluster key {path} is not a regular file")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise BadKey(f"other users can read the cluster key {path} (mode {mode:04o}); run: chmod 600 {path}")
    if not KEY_LEN_MIN <= len(text) <= KEY_FILE_LEN_MAX:
        raise BadKey(f"the cluster key {path} has {len(text)} bytes; it must have {KEY_LEN_MIN} to {KEY_FILE_LEN_MAX}")
    return text
