"""Parses and formats sizes, durations, numbers and network addresses. Pure.

Sizes are powers of 1024 (``64KB`` is 65,536 bytes), as in the WebQoS language.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")

_LABEL = "[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(rf"(?:\[([0-9A-Fa-f:.]+)\]|((?:{_LABEL}(?:\.{_LABEL})*)?)):([0-9]+)")

_BYTES_PER = {
    "": 1,
    "b": 1,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "mb": 1 << 20,
    "mib": 1 << 20,
    "gb": 1 << 30,
    "gib": 1 << 30,
}
_SECONDS_PER = {"": 1.0, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Address:
    """A network address, written ``host:port``, with brackets around an IPv6 host."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether this name or IP address is that of the machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_size(text: str) -> int:
    """Parse a size into bytes: ``512``, ``16KB``, ``1.5MB``. Raises ValueError."""
    number, per = _split(text, _BYTES_PER, "a size such as 512, 16KB or 64MB")
    return round(number * per)


def format_size(size: int) -> str:
    """The shortest form that :func:`parse_size` parses to the same size: ``64MB``."""
    for unit, per in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= per and size % per == 0:
            return f"{size // per}{unit}"
    return str(size)


def describe_size(size: int) -> str:
    """A size for people, to three digits: ``1 byte``, ``15.2 KB``, ``64 MB``."""
    for unit, per in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= per:
            return f"{size / per:.3g} {unit}" if size < 1000 * per else f"{size // per:,} {unit}"
    return pluralize(size, "byte")


def pluralize(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def parse_duration_s(text: str) -> float:
    """Parse a duration into seconds: ``500ms``, ``10s``, ``2min``, ``1h``; ``10`` is seconds. Raises ValueError."""
    number, per = _split(text, _SECONDS_PER, "a duration such as 500ms, 10s or 2min")
    return number * per


def format_duration_s(seconds: float) -> str:
    """The shortest form that :func:`parse_duration_s` parses to the same duration: ``10min``."""
    for unit, per in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= per and seconds % per == 0:
            return f"{seconds // per:g}{unit}"
    return f"{seconds:.10g}s"


def parse_positive_duration_s(text: str) -> float:
    """Parse a duration above 0 into seconds. Raises ValueError."""
    if (seconds := parse_duration_s(text)) <= 0:
        raise ValueError(f"'{text}' is not greater than 0; write a duration such as 500ms, 10s or 2min")
    return seconds


def parse_number(text: str, what: str) -> float:
    """Parse a number of at least 0. The error says that the text is not ``what``. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", text.strip()):
        raise ValueError(f"'{text}' is not {what}")
    return float(text)


def parse_count(text: str) -> int:
    """Parse a whole number of at least one. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}", text.strip()) or int(text) < 1:
        raise ValueError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def parse_address(text: str) -> Address:
    """Parse ``127.0.0.1:8080``, ``[::1]:80``, ``localhost:80``, ``:80`` (every interface) or ``80`` (loopback).

    Raises ValueError.
    """
    text = text.strip()
    if re.fullmatch(r"[0-9]+", text):
        return Address("127.0.0.1", _port(text, text))
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not an address; write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return Address(match[1] or match[2] or "0.0.0.0", _port(match[3], text))


def format_ms(microseconds: float) -> str:
    """Text with three significant digits: ``0.213 ms``, ``12.4 ms``, ``3.02 s``."""
    if microseconds < 999_500:
        milliseconds = microseconds / 1e3
        return f"{milliseconds:.{3 if milliseconds < 1 else 2 if milliseconds < 10 else 1}f} ms"
    return f"{microseconds / 1e6:.2f} s"


def _port(digits: str, text: str) -> int:
    if len(digits) > 5 or int(digits) > 65535:
        raise ValueError(f"port {digits} in '{text}' is not between 0 and 65535")
    return int(digits)


def _split(text: str, units: Mapping[str, float], example: str) -> tuple[float, float]:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise ValueError(f"'{text}' is not {example}")
    return float(match[1]), units[match[2].lower()]
