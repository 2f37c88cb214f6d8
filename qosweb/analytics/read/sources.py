"""Finds the log files that the command line names, and detects their format: JSON lines, combined, or Parquet.

Accepts files, folders (every file that is not hidden) and globs. The first lines of a file show its format. Addresses
that only Spark can open (``hdfs://...``) are JSON lines, or what ``--format`` says.
"""

from __future__ import annotations

import glob
import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMATS = ("json", "combined", "parquet")
FILES_MAX = 100_000
HEADS_MAX = 1000  # files
SMALL = 64 << 20  # bytes of logs
_PARQUET_MARK = b"PAR1"
_HEAD = 1 << 16
_COMPLETE = (".gz", ".parquet")


class Sources(NamedTuple):
    json: tuple[str, ...] = ()
    combined: tuple[str, ...] = ()
    parquet: tuple[str, ...] = ()


def find(names: list[str], form: str | None = None) -> Sources:
    """Finds the files and their formats. Raises UsageError for files that do not exist or cannot be logs."""
    found: dict[str, list[str]] = {one: [] for one in FORMATS}
    for name in names:
        if "://" in name and not name.startswith("file://"):
            found[form or "json"].append(name)
            continue
        files = _files(name.removeprefix("file://"))
        for file in files:
            kind = form or _kind(file)
            if kind:
                found[kind].append(str(file.absolute()))
    sources = Sources(*(tuple(dict.fromkeys(found[one])) for one in FORMATS))
    if not any(sources):
        raise UsageError(f"{names[0]}: no log lines found; expected JSON lines, the combined format, or Parquet")
    if sum(map(len, sources)) > FILES_MAX:
        raise UsageError(f"{sum(map(len, sources))} files; at most {FILES_MAX} can be read at once")
    return sources


def growing(names: Sequence[str]) -> list[Path]:
    """The logs that may grow; compressed and Parquet files are complete and excluded."""
    found: dict[Path, None] = {}
    for name in names:
        path = Path(name.removeprefix("file://")).absolute()
        if path.is_dir():
            files = _in_folder(path)
        elif glob.has_magic(name) and not path.exists():
            files = [one for one in _matches(str(path)) if one.is_file()]
        else:
            files = [path]
        found |= dict.fromkeys(one for one in files if one.suffix not in _COMPLETE)
    return list(found)


def check_growing(names: Sequence[str]) -> None:
    """Raises UsageError for logs that cannot be followed: compressed, not JSON lines, or missing."""
    for name in names:
        if "://" in name and not name.startswith("file://"):
            raise UsageError(f"{name}: --follow reads local files only")
        if Path(name).suffix in _COMPLETE:
            raise UsageError(f"{name}: --follow reads plain JSON lines, no compressed and no Parquet files")
    files = [path for path in growing(names) if path.exists()]
    if not files:
        raise UsageError(f"{names[0]}: no such file; with --follow at least one log must exist")
    for path in files:
        if _kind(path) == "combined":
            raise UsageError(f"{path}: --follow reads JSON lines; the combined format has no class to judge")


def size(sources: Sources) -> int | None:
    """Bytes on disk; compressed files count tenfold. None if only Spark can see some of the files."""
    total = 0
    for name in (file for kind in sources for file in kind):
        path = Path(name)
        if "://" in name or not path.exists():
            return None
        total += path.stat().st_size * (1 if path.suffix not in (".gz", ".parquet") else 10)
    return total


def first_lines(sources: Sources) -> Iterator[str]:
    """Some lines at the beginning of each local JSON file, up to ``HEADS_MAX`` files."""
    for name in sources.json[:HEADS_MAX]:
        if "://" not in name:
            yield from _head(Path(name)).decode(errors="replace").splitlines()


def _files(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        found = _in_folder(path)
        if not found:
            raise UsageError(f"{name}: the folder has no files")
        return found
    if path.exists():
        return [path]
    matches = _matches(name) if glob.has_magic(name) else []
    if not matches:
        raise UsageError(f"{name}: no such file or folder")
    return [file for match in matches for file in (_files(str(match)) if match.is_dir() else [match])]


def _in_folder(folder: Path) -> list[Path]:
    return [one for one in sorted(folder.rglob("*")) if one.is_file() and not _is_hidden(one.relative_to(folder))]


def _matches(pattern: str) -> list[Path]:
    return sorted(map(Path, glob.iglob(pattern, recursive=True)))  # noqa: PTH207 - any root


def _is_hidden(path: Path) -> bool:
    """As in Spark: names that begin with a dot or an underscore are not data."""
    return any(part.startswith((".", "_")) and "=" not in part for part in path.parts)


def _kind(path: Path) -> str:
    """The format of a file; empty for a file without lines."""
    head = _head(path)
    if head.startswith(_PARQUET_MARK):
        return "parquet"
    lines = head.split(b"\n")
    kinds = [_kind_of(line) for line in lines if line.strip()]
    if not kinds:
        return ""
    return "combined" if kinds.count("combined") > kinds.count("json") else "json"


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as raw:
            head = raw.read(_HEAD)
        if path.suffix == ".gz" and head:
            with gzip.open(path) as unzipped:
                head = unzipped.read(_HEAD)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{path}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    return head


def _kind_of(line: bytes) -> str:
    if line.lstrip().startswith(b"{"):
        return "json"
    return "combined" if b" [" in line and b'] "' in line else ""
