"""Which address of this machine a session has: the one at which those that work for it can reach it.

Spark's workers connect back to the session. On this machine that is the loopback, and nobody else can come there; with
a master elsewhere it is the address that this machine has towards it.
Neighbours: ``session`` binds to it.
"""

import re
import socket
from collections.abc import Callable

from qosweb.analytics import AnalyticsUnavailableError

LOOPBACK = "127.0.0.1"
ELSEWHERE = "192.0.2.1"  # nobody's (RFC 5737): the way there is the way to wherever a master is that has no address

_PORT = 9  # a socket has to be given one; nothing is sent to it
_HOST = re.compile(r"(?:spark|k8s)://(?:https?://)?(?:\[([0-9A-Fa-f:.]+)\]|([^/:,\[\]]+))")


def towards(host: str) -> str:
    """The address from which this machine would send to ``host``; nothing is sent. Raises OSError if there is no way.

    A UDP socket that is "connected" has only looked up its route.
    """
    family, kind, protocol, _, target = socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as asking:
        asking.connect(target)
        return str(asking.getsockname()[0])


def address_for(master: str, towards: Callable[[str], str] = towards) -> str:
    """For a session on ``master``. Raises AnalyticsUnavailableError if that cannot be reached from here."""
    if master.startswith("local"):
        return LOOPBACK
    found = _HOST.match(master)
    host = (found[1] or found[2]) if found else ELSEWHERE
    try:
        own = towards(host)
    except OSError as error:
        raise AnalyticsUnavailableError(f"no Spark session on {master}: no way to {host} ({error.strerror})") from None
    return f"[{own}]" if ":" in own else own
