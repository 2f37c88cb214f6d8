"""Small sites to serve."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 24 << 20  # more than the buffers of a socket pair hold


def write_site(root: Path) -> Path:
    """``index.html``, ``page.html``, ``thick.html`` (60 KB) and ``large.bin``, which is sent from disk."""
    root.mkdir()
    (root / "index.html").write_text("<p>hello")
    (root / "page.html").write_text("<p>" + "text " * 200)
    (root / "thick.html").write_text("<p>" + "thick " * 10_000)
    (root / "large.bin").write_bytes(random.Random(1).randbytes(1 << 20) * (LARGE >> 20))
    return root
