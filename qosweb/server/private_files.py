"""Reads files with secrets (a private key, a token) and rejects those that others than the owner may read."""

import os
import stat
from pathlib import Path

from qosweb.errors import UsageError


def read_private_file(option: str, path: Path) -> bytes:
    """The content of the file that ``option`` names. Raises UsageError."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    if mode & 0o077:
        raise UsageError(f"{option} {path}: others may read it (mode {mode:04o}); chmod 600 {path}")
    return content
