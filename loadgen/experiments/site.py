"""Site of an experiment: one page of the required size for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LINE = b"a page for an experiment, made of this line again and again\n"


def page_of(class_name: str) -> str:
    return f"{class_name}/page.html"


def make_site(folder: Path, sizes: Mapping[str, int]) -> Path:
    """``sizes`` in bytes by class, such as ``{"/a": 16384}``."""
    for class_name, size in sizes.items():
        file = folder / page_of(class_name).lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes((_LINE * (size // len(_LINE) + 1))[:size])
    return folder
