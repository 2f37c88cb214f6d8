"""Parses and formats durations, percentages and counts. Pure."""

import re

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)")
_SECONDS_PER = {"us": 1e-6, "ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES_PER = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def parse_duration_s(text: str) -> float:
    """Seconds in ``text``: ``500ms``, ``10s``, ``2min``, ``1h``; a bare number is seconds."""
    return _split(text, _SECONDS_PER, "a duration such as 500ms, 10s or 2min")


def parse_positive_duration_s(text: str) -> float:
    if (seconds := parse_duration_s(text)) <= 0:
        raise ValueError(f"'{text}' is not greater than 0; write a duration such as 500ms, 10s or 2min")
    return seconds


def parse_size(text: str) -> int:
    """Bytes in ``text``: ``512``, ``16KB``, ``1.5MB``, in powers of 1024."""
    return round(_split(text, _BYTES_PER, "a size such as 512, 16KB or 64MB"))


def parse_number(text: str, what: str) -> float:
    """A number of at least 0. The error message says that the text is not ``what``."""
    if not re.fullmatch(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", text.strip()):
        raise ValueError(f"'{text}' is not {what}")
    return float(text)


def parse_count(text: str) -> int:
    """A whole number of at least one."""
    if not re.fullmatch(r"[0-9]{1,15}", text.strip()) or int(text) < 1:
        raise ValueError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def format_ms(microseconds: float) -> str:
    """Text with three significant digits: ``0.213 ms``, ``12.4 ms``, ``3.02 s``."""
    if microseconds < 999_500:
        milliseconds = microseconds / 1e3
        return f"{milliseconds:.{3 if milliseconds < 1 else 2 if milliseconds < 10 else 1}f} ms"
    return f"{microseconds / 1e6:.2f} s"


def _split(text: str, units: dict[str, float] | dict[str, int], example: str) -> float:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise ValueError(f"'{text}' is not {example}")
    return float(match[1]) * units[match[2].lower()]
