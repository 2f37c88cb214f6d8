"""Parses literals of the language (shares, rates, times, sizes, dates, networks) into exact integers.

The unit is in the function's name: parts per million, milliseconds, bytes, bytes per second, millionths of a request
per second. Integers make all replicas compute the same. Every function raises BadValue, with a hint, for invalid text.
"""

import re
from datetime import date
from fractions import Fraction
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

PPM = 1_000_000

BYTES_PER = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
MS_PER = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
REDIRECTS = ("client", "forward", "never")
DAY_S = 86_400

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})(.*)", re.DOTALL)
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class BadValue(Exception):
    """A literal that cannot be parsed."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def _split(text: str, what: str, example: str) -> tuple[Fraction, str]:
    if text[:1] == "-":
        raise BadValue(f"{what} cannot be negative: '{text}'", f"such as {example}")
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise BadValue(f"'{text}' is not {what}", f"such as {example}")
    return Fraction("0" + match[1]), match[2]


def _unit(unit: str, units: dict[str, int], what: str, text: str) -> int:
    for known, per in units.items():
        if unit.lower() == known.lower():
            return per
    raise BadValue(f"'{text}' is not {what}: unknown unit '{unit}'", f"units are {', '.join(units)}")


def share_ppm(text: str) -> int:
    """A share of the capacity: ``0.3``, ``30%``."""
    number, unit = _split(text, "a share", "0.3 or 30%")
    if unit == "%":
        number /= 100
    elif unit:
        raise BadValue(f"'{text}' is not a share", "such as 0.3 or 30%; sizes and times have other attributes")
    if number > 1:
        hint = f"did you mean {text}%?" if not unit and number <= 100 else "a share is at most 1, or 100%"
        raise BadValue(f"a share of '{text}' is more than 100%", hint)
    if number and not round(number * PPM):
        raise BadValue(f"a share of '{text}' is less than a millionth", "write 0 for no share")
    return round(number * PPM)


def rate_urps(text: str) -> int:
    """Requests per second, in millionths."""
    number, unit = _split(text, "a number of requests per second", "100 or 30/min")
    per = {"": 1, "/s": 1, "/min": 60, "/h": 3600}.get(unit)
    if per is None:
        raise BadValue(f"'{text}' is not a number of requests per second", "such as 100 or 30/min")
    return _not_lost(text, number, round(number * 1_000_000 / per))


def rate_bps(text: str) -> int:
    """Bytes per second; a bare number is kilobytes per second, as in the paper."""
    number, unit = _split(text, "a byte rate", "500 (kilobytes per second) or 2MB/s")
    if not unit:
        return _not_lost(text, number, round(number * 1024))
    size, slash, per = unit.partition("/")
    if not slash:
        hint = f"a rate is per second: {text}/s" if size.upper() in BYTES_PER else "such as 500 or 2MB/s"
        raise BadValue(f"'{text}' is not a byte rate", hint)
    if per not in ("s", "min", "h"):
        raise BadValue(f"'{text}' is not a byte rate: unknown time '{per}'", "such as 2MB/s")
    rate = round(number * _unit(size, BYTES_PER, "a byte rate", text) / {"s": 1, "min": 60, "h": 3600}[per])
    return _not_lost(text, number, rate)


def _not_lost(text: str, number: Fraction, rate: int) -> int:
    """Reject a positive rate that is rounded to zero."""
    if number and not rate:
        raise BadValue(f"the rate '{text}' is too small", "write 0 for a rate of zero")
    return rate


def duration_ms(text: str) -> int:
    """A duration of at least a millisecond; the unit is required."""
    number, unit = _split(text, "a time", "500ms, 2s or 1h")
    if not unit:
        raise BadValue(f"the time '{text}' has no unit", f"such as {text}ms or {text}s")
    ms = round(number * _unit(unit, MS_PER, "a time", text))
    if ms < 1:
        raise BadValue(f"the time '{text}' is less than a millisecond")
    return ms


def size_bytes(text: str) -> int:
    number, unit = _split(text, "a size", "512, 16KB or 1MB")
    return round(number * (_unit(unit, BYTES_PER, "a size", text) if unit else 1))


def positive_size_bytes(text: str) -> int:
    size = size_bytes(text)
    if size < 1:
        raise BadValue(f"the size '{text}' is zero", "such as 128KB")
    return size


def factor(text: str) -> Fraction:
    """A positive factor of a relative bound: ``2``, ``0.5``, ``50%``."""
    number, unit = _split(text, "a factor", "2 or 0.5")
    if unit == "%":
        number /= 100
    elif unit:
        raise BadValue(f"'{text}' is not a factor", "such as 2 or 0.5")
    if not number:
        raise BadValue("a factor must not be zero", "such as 2 or 0.5")
    if number > 1_000_000 or number < Fraction(1, 1_000_000):
        raise BadValue(f"the factor '{text}' is not between a millionth and a million")
    return number


def count(text: str) -> int:
    number, unit = _split(text, "a whole number", "3")
    if unit or number.denominator != 1:
        raise BadValue(f"'{text}' is not a whole number", "such as 3")
    return int(number)


def load_ppm(text: str) -> int:
    number, unit = _split(text, "a load", "0.8 or 80%")
    if unit not in ("", "%"):
        raise BadValue(f"'{text}' is not a load", "such as 0.8 or 80%")
    return round(number * PPM / (100 if unit else 1))


def clock_s(text: str) -> int:
    """Seconds since midnight; 24:00 is the end of the day."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        hint = f"a range is written {text.replace('-', '..')}" if "-" in text else "such as 22:00"
        raise BadValue(f"'{text}' is not a time of day", hint)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    at = hour * 3600 + minute * 60 + second
    if minute > 59 or second > 59 or at > DAY_S:
        raise BadValue(f"there is no time of day '{text}'", "from 00:00 to 24:00")
    return at


def weekday(text: str) -> int:
    """0 is Monday."""
    short = text.lower()[:3]
    full = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    if text.lower() not in (*WEEKDAYS, *full):
        hint = f"a range is written {text.replace('-', '..')}" if "-" in text else ", ".join(WEEKDAYS)
        raise BadValue(f"'{text}' is not a day of the week", hint)
    return WEEKDAYS.index(short)


def day(text: str) -> int:
    """A date, as a proleptic Gregorian ordinal."""
    try:
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            raise ValueError
        return date.fromisoformat(text).toordinal()
    except ValueError:
        raise BadValue(f"'{text}' is not a date", "such as 2026-12-24") from None


def network(text: str) -> str:
    """An address or network, in canonical form: ``10.0.0.0/8``."""
    try:
        return str(_unmapped(ip_network(text)))
    except ValueError:
        pass
    try:
        loose = ip_network(text, strict=False)
    except ValueError:
        raise BadValue(f"'{text}' is not an address or network", "such as 10.0.0.7 or 10.0.0.0/8") from None
    raise BadValue(f"'{text}' has host bits set", f"the network is {loose}")


def _unmapped(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    """Turn an IPv4-mapped IPv6 network into the IPv4 network: a client has one address, however it connects."""
    first = network.network_address
    if isinstance(first, IPv6Address) and first.ipv4_mapped is not None and network.prefixlen >= 96:
        return IPv4Network((first.ipv4_mapped, network.prefixlen - 96))
    return network


def address(text: str) -> str:
    try:
        found = ip_address(text)
        if isinstance(found, IPv6Address):
            found = found.ipv4_mapped or found
        return str(found)
    except ValueError:
        raise BadValue(f"'{text}' is not an address", "such as 10.0.0.7") from None


def method(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise BadValue(f"'{text}' is not a method", "such as GET")
    if text != text.upper():
        raise BadValue(f"'{text}' is not a method", f"methods are in capitals: {text.upper()}")
    return text


def host(text: str) -> str:
    if not re.fullmatch(r"(?:[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", text):
        raise BadValue(f"'{text}' is not a host name", "such as www.commerce.com")
    return text.lower()


def redirect(text: str) -> str:
    """How a request gets to another node: by a redirect of the client, by forwarding, or never."""
    if text not in REDIRECTS:
        raise BadValue(f"unknown redirect mode '{text}'", f"one of {', '.join(REDIRECTS)}")
    return text


def plain_text(text: str) -> str:
    return text


def field_name(text: str) -> str:
    if not _TOKEN.fullmatch(text):
        raise BadValue(f"'{text}' is not the name of a header field or cookie", 'such as "User-Agent"')
    return text
