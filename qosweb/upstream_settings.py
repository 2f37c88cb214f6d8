"""Settings of upstream servers: ``--upstream URL`` (repeated), or ``[[upstream]]`` tables of the TOML file. Pure.

Every key of a table is a field of `UpstreamSettings`. A key that is missing has its default, which for connections and
times is that of the node's options.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qosweb.errors import UsageError, did_you_mean
from qosweb.units import is_loopback, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WEIGHT_MAX = 1_000
COUNT_MAX = 100_000

_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?")
_NAME = re.compile(r"[A-Za-z0-9._:\[\]-]{1,128}")
_HOST = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*(?::[0-9]{1,5})?")
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PATH = re.compile(r"/[^\x00-\x20\x7f*?#]*\*?")


def parse_origin(text: str) -> str:
    """The address of a server, such as http://127.0.0.1:9000. Raises ValueError."""
    if not _ORIGIN.fullmatch(text):
        raise ValueError(f"'{text}' is not the address of a server, such as http://127.0.0.1:9000")
    return text.rstrip("/")


def _text(pattern: re.Pattern[str], what: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is not {what}")
        return value

    return parse


def _texts(pattern: re.Pattern[str], what: str) -> Callable[[object], tuple[str, ...]]:
    one = _text(pattern, what)

    def parse(value: object) -> tuple[str, ...]:
        return tuple(one(item) for item in (value if isinstance(value, list) else [value]))

    return parse


def _number(low: int, high: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{value!r} is not a whole number from {low} to {high}")
        return value

    return parse


def _seconds(value: object) -> float:
    seconds = parse_duration_s(str(value)) if isinstance(value, str | int | float) else 0.0
    if isinstance(value, bool) or seconds <= 0:
        raise ValueError(f"{value!r} is not a time, such as 5s")
    return seconds


def _statuses(value: object) -> tuple[int, ...]:
    one = _number(100, 599)
    return tuple(one(item) for item in (value if isinstance(value, list) else [value]))


def _scope(value: object) -> str:
    if value not in ("node", "cluster"):
        raise ValueError(f"{value!r} is not a scope; use node or cluster")
    return str(value)


def _url(value: object) -> str:
    return parse_origin(str(value))


def _file(value: object) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not a file")
    return Path(value)


def _key(parse: Callable[[object], object], default: object) -> Any:
    return field(default=default, metadata={"parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One upstream server. None: the default of the node, or no such thing."""

    url: str = _key(_url, "")
    name: str = _key(_text(_NAME, "a name of letters, digits, '-', '_', '.' and ':'"), "")
    paths: tuple[str, ...] = _key(_texts(_PATH, "a path, such as /api/* or /login"), ())
    hosts: tuple[str, ...] = _key(_texts(_HOST, "a host, such as shop.example or *.shop.example"), ())
    weight: int = _key(_number(1, WEIGHT_MAX), 1)
    slots: int | None = _key(_number(1, COUNT_MAX), None)
    connections: int | None = _key(_number(1, COUNT_MAX), None)
    health_path: str | None = _key(_text(_PATH, "a path, such as /healthz"), None)
    health_interval: float = _key(_seconds, 5.0)
    health_status: tuple[int, ...] = _key(_statuses, (200, 204))
    connect: float | None = _key(_seconds, None)
    first_byte: float | None = _key(_seconds, None)
    idle: float | None = _key(_seconds, None)
    ca: Path | None = _key(_file, None)  # noqa: RUF009
    server_name: str | None = _key(_text(_HOST, "a host name"), None)
    host: str | None = _key(_text(_AUTHORITY, "a host with an optional port"), None)
    scope: str = _key(_scope, "")

    @property
    def authority(self) -> str:
        return self.url.partition("://")[2]

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https:")


def parse_upstreams(text: str) -> tuple[UpstreamSettings, ...]:
    """Parse addresses that are separated by commas. Raises ValueError."""
    urls = [parse_origin(one.strip()) for one in text.split(",") if one.strip()]
    if not urls:
        raise ValueError("there is no address")
    if len(set(urls)) != len(urls):
        raise ValueError("an address is given twice")
    return tuple(_complete(UpstreamSettings(url=url)) for url in urls)


def upstreams_of_tables(tables: list[Mapping[str, object]], where: str) -> tuple[UpstreamSettings, ...]:
    """The servers of ``[[upstream]]`` tables. Raises UsageError."""
    found = tuple(_of_table(table, f"{where}: upstream {number}") for number, table in enumerate(tables, 1))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: two upstreams have the name '{name}'; give one of them another name")
    return found


def _of_table(table: Mapping[str, object], where: str) -> UpstreamSettings:
    fields = {one.name: one for one in dataclasses.fields(UpstreamSettings)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in fields:
            raise UsageError(f"{where}: unknown key '{key}'{did_you_mean(name, fields)}")
        try:
            values[name] = fields[name].metadata["parse"](value)
        except ValueError as error:
            raise UsageError(f"{where}: {key}: {error}") from None
    if "url" not in values:
        raise UsageError(f"{where}: no url: give the address of the server, such as url = 'http://127.0.0.1:9000'")
    server = _complete(UpstreamSettings(**values))
    if not server.is_secure and (server.ca is not None or server.server_name is not None):
        raise UsageError(f"{where}: 'ca' and 'server_name' are for https, but the url is {server.url}")
    if server.health_path is not None and server.health_path.endswith("*"):
        raise UsageError(f"{where}: health_path: '{server.health_path}' is a pattern; give one path")
    return server


def _complete(server: UpstreamSettings) -> UpstreamSettings:
    """Fill in the name and the scope: a server on a loopback address belongs to its node alone."""
    name = server.name or server.authority
    scope = server.scope or ("node" if _is_loopback(server.authority) else "cluster")
    return dataclasses.replace(server, name=name, scope=scope)


def _is_loopback(authority: str) -> bool:
    host = authority.rpartition(":")[0] if not authority.endswith("]") and ":" in authority else authority
    return is_loopback(host.strip("[]"))
