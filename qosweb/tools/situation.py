"""Parses the options of ``explain`` and ``shares`` that describe time, load, nodes and pages."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.http.hosts import parse_host
from qosweb.http.targets import BadTarget, parse_target
from qosweb.setting_values import parse_byte_rate
from qosweb.webqos import values
from qosweb.webqos.model.model import Bytes, Requests
from qosweb.webqos.policy.environment import REQUEST_BYTES, Environment
from qosweb.webqos.values import BadValue
from qosweb.webqos.zones import local_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import TypeVar

    from qosweb.webqos.match.matcher import Matcher
    from qosweb.webqos.model.model import Model

    T = TypeVar("T")

RATES_IGNORED = "bounds on requests and bytes per second are ignored: they need --capacity"


def ignores_rates(model: Model, environment: Environment) -> bool:
    """Whether the model has bounds on rates that cannot be converted to shares, because the capacity is unknown."""
    rated = any(isinstance(rule.value, Bytes | Requests) and not rule.shadow for rule in model.constraints)
    return rated and environment.capacity_bps is None


def read_literal(read: Callable[[str], T], text: str, option: str) -> T:
    """Parse the value of an option. Raises UsageError."""
    try:
        return read(text)
    except BadValue as bad:
        raise UsageError(f"{option}: {bad.message}{f' ({bad.hint})' if bad.hint else ''}") from None


def environment_of(arguments: argparse.Namespace, matcher: Matcher) -> Environment:
    """The environment that the options describe. Raises UsageError."""
    now = local_time(matcher.model.settings.offsets, int(datetime.now(UTC).timestamp()))
    time_s, weekday, day = parse_moment(arguments.at, now)
    nodes = read_literal(values.count, arguments.nodes, "--nodes") if arguments.nodes else 1
    if nodes < 1:
        raise UsageError("--nodes: a cluster has at least one node")
    size = getattr(arguments, "request_size", None)
    accessed: dict[int, int] = {}
    for text in arguments.accessed:
        url, _, age = text.partition("=")
        host, path = split_url(url, matcher.model.settings.site)
        age_ms = read_literal(values.duration_ms, age, "--accessed") if age else 0
        for page_set in matcher.watched_sets(host, path):
            accessed[page_set] = min(age_ms, accessed.get(page_set, age_ms))
    return Environment(
        time_s,
        weekday,
        day,
        read_literal(values.load_ppm, arguments.load, "--load") if arguments.load else 0,
        nodes,
        accessed,
        _capacity(arguments.capacity) * nodes if arguments.capacity else None,
        read_literal(values.positive_size_bytes, size, "--request-size") if size else REQUEST_BYTES,
    )


def _capacity(text: str) -> int:
    try:
        return parse_byte_rate(text)
    except ValueError as error:
        raise UsageError(f"--capacity: {error}") from None


def parse_moment(text: str | None, now: tuple[int, int, int]) -> tuple[int, int, int]:
    """Parse ``--at`` into second of the day, weekday and day. Missing parts are taken from ``now``."""
    time_s, weekday, day = now
    for part in re.split(r"[T ]+", text or ""):
        if not part:
            continue
        if ":" in part:
            time_s = min(read_literal(values.clock_s, part, "--at"), values.DAY_S - 1)
        elif part[0].isdigit():
            day = read_literal(values.day, part, "--at")
            weekday = (day - 1) % 7
        else:
            weekday = read_literal(values.weekday, part, "--at")
    return time_s, weekday, day


def split_url(text: str, site: str | None) -> tuple[str, str]:
    """Host and canonical, decoded path of ``http://host/path``, ``host/path`` or ``/path``. Raises UsageError.

    Characters that a URL has to escape may be written unescaped. A fragment is ignored.
    """
    rest = re.sub(r"^https?://", "", text, flags=re.IGNORECASE).partition("#")[0]
    if re.match(r"[A-Za-z][A-Za-z+.-]*://", rest):
        raise UsageError(f"{text}: not the address of a page: write http://host/path, host/path or /path")
    host, slash, path = rest.partition("/")
    if text.startswith("/"):
        host, path = site or "", rest[1:]
    elif not slash and "." not in host:
        host, path = site or "", rest
    known = parse_host(host) if host else ""
    if known is None or not rest:
        raise UsageError(f"{text or 'an empty text'}: not the address of a page: write http://host/path or /path")
    escaped = re.sub(r"[^!-~]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)
    try:
        return known, parse_target("/" + escaped).path
    except BadTarget as bad:
        raise UsageError(f"{text}: not the address of a page: {bad.reason}") from None
