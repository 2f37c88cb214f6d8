"""Opens listening sockets, the root folder and the access log when a node starts; errors name the option."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.server.accesslog.file import LogFile
from qosweb.server.files.files import Root

if TYPE_CHECKING:
    from qosweb.settings import ServeSettings
    from qosweb.units import Address

BACKLOG = 2048


def bind(address: Address, option: str) -> socket.socket:
    """A listening socket. Raises UsageError, which names ``option``, if the address cannot be used."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise UsageError(f"{option} {address}: no such host") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        hint = f"; choose another with {option} HOST:PORT" if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"{option} {address}: {error.strerror}{hint}") from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def open_root(path: Path | None) -> Root | None:
    """The folder of ``--root``. Raises UsageError."""
    if path is None:
        return None
    try:
        next(path.iterdir(), None)
        return Root(path)
    except FileNotFoundError:
        raise UsageError(f"--root {path}: there is no such folder") from None
    except NotADirectoryError:
        raise UsageError(f"--root {path}: not a folder") from None
    except OSError as error:
        raise UsageError(f"--root {path}: {error.strerror}") from None


def open_log(settings: ServeSettings) -> LogFile | None:
    """The file of ``--access-log``; None without a log. Raises UsageError."""
    if settings.access_log == "none":
        return None
    path = None if settings.access_log == "-" else Path(settings.access_log)
    root = settings.root
    if path is not None and root is not None and path.resolve().is_relative_to(root.resolve()):
        raise UsageError(f"--access-log {path}: is below --root, so every client could read it; choose another folder")
    try:
        return LogFile(path, rotate_bytes=settings.access_log_rotate, keep=settings.access_log_keep)
    except OSError as error:
        raise UsageError(f"--access-log {settings.access_log}: {error.strerror}") from None


def default_name() -> str:
    """The host name, as the name of a node."""
    kept = "".join(c for c in socket.gethostname() if c.isascii() and (c.isalnum() or c in "-_."))
    return kept[:64] or "node"
