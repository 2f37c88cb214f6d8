"""Opening files below the root, and nothing else.

What counts is the file that was really opened, not the name that was asked for: the kernel is asked where an open
descriptor lies, so a link that is changed between a check and its use leads nowhere. Links inside the root are
followed; links out of it, links to hidden files, and everything that is not a regular file are refused.

Names are bytes, as the kernel has them: they come as UTF-8 from the wire, whatever the locale of this process is.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # O_NONBLOCK: a FIFO must not hang the open


_NO_SUCH_FILE = frozenset({errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO, errno.ENODEV, errno.EINVAL})


class NotServed(Exception):
    """There is no file to serve under this name."""


class NotReadable(NotServed):
    """There is a file, and this process may not read it."""


class IsDirectory(NotServed):
    """The name is a directory."""


@dataclass(frozen=True, slots=True)
class FileVersion:
    """Which version of which file: two reads with equal identities saw the same content.

    ctime is part of it because a writer can set mtime back, and cannot set ctime.
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
    """The folder itself is not there: moved away, or not mounted."""


class Root:
    """The folder that is served."""

    __slots__ = ("_prefix", "path")

    def __init__(self, path: Path) -> None:
        self.path = path.resolve(strict=True)
        self._prefix = os.fsencode(self.path).rstrip(b"/") + b"/"

    def file_name(self, segments: tuple[str, ...]) -> bytes:
        return self._prefix + "/".join(segments).encode("utf-8", "surrogateescape")

    def is_there(self) -> bool:
        return self.path.is_dir()

    def open(self, name: bytes) -> tuple[int, FileVersion]:
        """A descriptor of the regular file ``name`` (from :meth:`file_name`) and what was opened.

        Raises NotServed or IsDirectory for what is not there or not to be served, OSError for a failing disk.
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


def look_at(name: bytes) -> FileVersion | None:
    """The identity of the file now under ``name``; None if there is none."""
    try:
        return FileVersion.of(os.stat(name))
    except OSError:
        return None


def _path_of(descriptor: int, name: bytes) -> bytes:
    try:
        return os.readlink(b"/proc/self/fd/%d" % descriptor)
    except FileNotFoundError:  # no /proc on this system
        return os.path.realpath(name)
