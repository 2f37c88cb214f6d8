"""Parses and normalises the Host field.

From: RFC 9110 section 7.2 (Host), 4.2.1 (no empty host), RFC 3986 section 3.2.2 and 3.2.3 (host and port).
Departs: IPvFuture is rejected, as no version of it exists; so are names longer than 255 characters and ports beyond
65535.
"""

import functools
import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

_HOST = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\]"
    r"|(?P<name>[0-9A-Za-z_-]+(?:\.[0-9A-Za-z_-]+)*\.?))"  # a domain name or an IPv4 address
    r"(?P<port>:0*+[0-9]{0,5})?"
)
_NUMERIC_LABEL = re.compile(r"(?:.*\.)?[0-9]+\.?")
_NAME_LEN_MAX = 255
_PORT_MAX = 65_535


@functools.lru_cache(maxsize=4096)
def parse_host(value: str) -> str | None:
    """The host in lower case, with its port if there is one (an empty port is dropped); None if invalid.

    A name has non-empty labels of letters, digits, '-' and '_'. RFC 3986 also allows escapes and characters such as
    ',' in names, but no domain name has them. A name that ends in a number must be an IPv4 address.
    """
    found = _HOST.fullmatch(value)
    if found is None:
        return None
    ipv6, name, port = found["ipv6"], found["name"], found["port"]
    if ipv6 is not None and not _is_ipv6(ipv6):
        return None
    if name is not None and (len(name) > _NAME_LEN_MAX or (_NUMERIC_LABEL.fullmatch(name) and not _is_ipv4(name))):
        return None
    if port is None:
        return value.lower()
    if port == ":":
        return value[:-1].lower()
    return value.lower() if int(port[1:].lstrip("0") or "0") <= _PORT_MAX else None


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except AddressValueError:
        return False
    return True


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
