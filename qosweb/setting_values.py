"""Parsers of the values of settings, such as rates, networks and names. All raise ValueError. Pure."""

import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

from qosweb.errors import did_you_mean
from qosweb.http.forwarded import Network
from qosweb.units import Address, format_size, parse_address, parse_size
from qosweb.webqos.values import BadValue, rate_bps, share_ppm

LOG_FIELDS = ("user_agent", "referer", "query", "upstream_ms")  # fields that a log has on demand
HEAD_SIZE_MAX = 64 << 20  # upper limit of the options; a request head is held in memory


def parse_path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(f"'{text}' is not a path")
    return Path(text)


def parse_log_file(text: str) -> str:
    return text if text in ("-", "none") else str(parse_path(text))


def parse_log_format(text: str) -> str:
    if text not in ("json", "combined"):
        raise ValueError(f"'{text}' is not a log format; use json or combined")
    return text


def parse_log_fields(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))
    for name in names:
        if name not in LOG_FIELDS:
            raise ValueError(f"'{name}' is not one of {', '.join(LOG_FIELDS)}{did_you_mean(name, LOG_FIELDS)}")
    return names


def parse_optional_address(text: str) -> Address | None:
    return None if text.strip().lower() in ("none", "off") else parse_address(text)


def parse_node_name(text: str) -> str:
    if not text or len(text) > 64 or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in text):
        raise ValueError(f"'{text}' is not a node name; use up to 64 letters, digits, '-', '_' and '.'")
    return text


def parse_cluster_id(text: str) -> str:
    if not text or len(text) > 64 or not all(c.isascii() and (c.isalnum() or c in "-_.+") for c in text):
        raise ValueError(f"'{text}' is not a cluster id, such as qosweb+1a2b3c4d")
    return text


def parse_file_name(text: str) -> str:
    if not text or "/" in text or text.startswith(".") or not text.isprintable():
        raise ValueError(f"'{text}' is not a plain file name, such as index.html")
    return text


def parse_byte_rate(text: str) -> int:
    """Parse a rate such as 2MB/s into bytes per second. Raises ValueError."""
    if not any(one.isalpha() for one in text):
        raise ValueError(f"'{text}' has no unit (such as 2MB/s)")  # a specification would take it as KB/s
    return _positive(rate_bps, text)


def parse_yes_or_no(text: str) -> bool:
    word = text.strip().lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError(f"'{text}' is neither yes nor no")


def parse_addresses(text: str) -> tuple[Address, ...]:
    return tuple(parse_address(one.strip()) for one in text.split(",") if one.strip())


def parse_host_names(text: str) -> tuple[str, ...]:
    names = tuple(one.strip() for one in text.split(",") if one.strip())
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,255}", name):
            raise ValueError(f"'{name}' is not a host name, such as node1.example (without a port)")
    return names


def parse_networks(text: str) -> tuple[Network, ...]:
    """Parse networks and addresses, separated by commas, such as 10.0.0.0/8. Raises ValueError."""
    return tuple(_network(one.strip()) for one in text.split(",") if one.strip())


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        hint = f"; did you mean {ip_network(text, strict=False)}?"
    except ValueError:
        hint = ""
    raise ValueError(f"'{text}' is not a network or an address, such as 10.0.0.0/8 or 2001:db8::1{hint}")


def parse_client_share(text: str) -> int:
    """In millionths."""
    return _positive(share_ppm, text)


def _positive(parse: Callable[[str], int], text: str) -> int:
    """A value above 0, parsed as in a specification."""
    try:
        value = parse(text.strip())
    except BadValue as bad:
        raise ValueError(f"{bad.message}{f' ({bad.hint})' if bad.hint else ''}") from None
    if value <= 0:
        raise ValueError(f"'{text}' must be more than 0")
    return value


def parse_positive_size(text: str) -> int:
    return _positive(parse_size, text)


def parse_head_size(text: str) -> int:
    size = parse_positive_size(text)
    if size > HEAD_SIZE_MAX:
        raise ValueError(f"'{text}' must be at most {format_size(HEAD_SIZE_MAX)}")
    return size
