"""Parses and normalises the Host field.

From: RFC 9110 section 7.2 (Host), 4.2.1 (no empty host), RFC 3986 section 3.2.2 and 3.2.3 (host and port).
Departs: IPvFuture is rejected, as no version of it exists; so are names longer than 255 characters and ports beyond
65535.
"""

import re
from ipaddress import AddressValueError, IPv6Address

_HOST = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\]"
    r"|(?P<name>(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2}){1,255}))"  # includes IPv4 addresses
    r"(?P<port>:0*+[0-9]{0,5})?"
)
_NAME_LEN_MAX = 255
_PORT_MAX = 65_535


def parse_host(value: str) -> str | None:
    """The host in lower case, with its port if there is one (an empty port is dropped); None if invalid.

    The empty value is valid and returned as it is: clients send it if the target has no authority.
    """
    if not value:
        return ""
    found = _HOST.fullmatch(value)
    if found is None:
        return None
    ipv6, name, port = found["ipv6"], found["name"], found["port"]
    if ipv6 is not None and not _is_ipv6(ipv6):
        return None
    if name is not None and len(name) > _NAME_LEN_MAX:
        return None
    if port is None:
        return value.lower()
    if port == ":":
        return value[:-1].lower()
    return value.lower() if int(port[1:].lstrip("0") or "0") <= _PORT_MAX else None


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True
