"""File access confined to the root: opens regular files below it and refuses all others.

The check applies to the file that was really opened, not to the requested name: the kernel tells the path of an open
descriptor. So there is no race between check and use if a symbolic link changes. Symbolic links inside the root are
followed. Links out of the root, links to hidden files, and everything that is not a regular file are refused.

Names are bytes, as in the kernel. They come as UTF-8 from the wire, independent of the locale of this process.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from qosweb.http.preconditions import Validators

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # O_NONBLOCK: a FIFO must not hang the open


_NO_SUCH_FILE = frozenset({errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.ENODEV, errno.EINVAL})


class NotServed(Exception):
    """There is no file to serve under this name."""


class NotReadable(NotServed):
    """The file exists, but this process has no permission to read it."""


class IsDirectory(NotServed):
    """The name is a directory."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Identity of one version of one file: two reads with equal identities saw the same content.

    It includes ctime because a writer can set mtime back, but not ctime.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileVersion":
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def mtime_s(self) -> int:
        return self.mtime_ns // 1_000_000_000


class RootGone(OSError):
    """The root folder is missing: moved away, or not mounted."""


class HeldElsewhere(OSError):
    """The file is missing here, and the disk has no room for it; a node of the cluster has it."""

    def __init__(self, node_url: str) -> None:
        super().__init__(f"the disk has no room for this file; {node_url} has it")
        self.node_url = node_url


class FoundFile(NamedTuple):
    """A file by its name on disk. ``validators`` are given only if the content under this name never changes."""

    name: bytes
    validators: Validators | None = None


class SiteFolder(Protocol):
    """A folder of files to serve: `Root`, or a release of the site."""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Header fields of all responses with its files."""

    def find(self, segments: tuple[str, ...], suffix: str = "") -> FoundFile:
        """Find the file of a path. Raises NotServed, IsDirectory or OSError."""

    def open(self, name: bytes) -> tuple[int, FileVersion]:
        """Open a file that was found. Raises NotServed or OSError."""

    def is_there(self) -> bool: ...


class Root:
    """The served folder."""

    __slots__ = ("_prefix", "path")
    fields = ()

    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)
        self._prefix = os.fsencode(self.path).rstrip(b"/") + b"/"

    def find(self, segments: tuple[str, ...], suffix: str = "") -> FoundFile:
        """The name of a file that may exist; ``open`` checks it."""
        return FoundFile(self._prefix + ("/".join(segments) + suffix).encode("utf-8", "surrogateescape"))

    def is_there(self) -> bool:
        return self.path.is_dir()

    def open(self, name: bytes) -> tuple[int, FileVersion]:
        """Open the regular file ``name`` (from :meth:`find`); returns its descriptor and version.

        Raises NotServed (also NotReadable, IsDirectory) if there is no file to serve, OSError if the disk fails.
        """
        try:
            descriptor = os.open(name, _READ)
        except (FileNotFoundError, NotADirectoryError):
            raise NotServed(name) from None
        except PermissionError:
            raise NotReadable(name) from None
        except OSError as error:
            if error.errno in _NO_SUCH_FILE:
                raise NotServed(name) from None
            raise
        try:
            status = os.fstat(descriptor)
            if not self._is_inside(descriptor, name):
                raise NotServed(name)
            if stat.S_ISDIR(status.st_mode):
                raise IsDirectory(name)
            if not stat.S_ISREG(status.st_mode):
                raise NotServed(name)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, FileVersion.of(status)

    def _is_inside(self, descriptor: int, name: bytes) -> bool:
        real = _path_of(descriptor, name)
        if real + b"/" == self._prefix:
            return True
        if not real.startswith(self._prefix):
            return False
        inside = real[len(self._prefix) :].split(b"/")
        return not any(
            part.startswith(b".") and not (at == 0 and part == b".well-known") for at, part in enumerate(inside)
        )


def version_of(name: bytes) -> FileVersion | None:
    """The version of the file ``name`` on disk; None if there is none."""
    try:
        return FileVersion.of(os.stat(name))
    except OSError:
        return None


def _path_of(descriptor: int, name: bytes) -> bytes:
    try:
        return os.readlink(b"/proc/self/fd/%d" % descriptor)
    except FileNotFoundError:  # no /proc on this system
        return os.path.realpath(name)
