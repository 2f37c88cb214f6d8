"""The cluster key: a file that its owner alone may read."""

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
    """A key file that cannot be used, and why."""


def make_key_file(path: Path) -> None:
    """A new key. Never over a file that is there."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadKey(f"{path} is there already: a new key would lock out every member that has the old one") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(KEY_LEN) + "\n")


def read_key_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            text = file.read(KEY_FILE_LEN_MAX + 1).strip()
    except OSError as error:
        raise BadKey(
            f"the cluster key {path} cannot be read: {error.strerror}; 'python -m cluster key FILE' makes one"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise BadKey(f"the cluster key {path} is not a file")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise BadKey(f"others may read the cluster key {path} (mode {mode:04o}); chmod 600 {path}")
    if not KEY_LEN_MIN <= len(text) <= KEY_FILE_LEN_MAX:
        raise BadKey(f"the cluster key {path} has {len(text)} bytes; {KEY_LEN_MIN} to {KEY_FILE_LEN_MAX} are a key")
    return text
