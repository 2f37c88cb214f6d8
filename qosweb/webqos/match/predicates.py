"""Compiles conditions into functions, with constants precomputed."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from qosweb.webqos.globs import Glob
from qosweb.webqos.model import conditions as c

if TYPE_CHECKING:
    from collections.abc import Callable

    Test = Callable[[c.Facts], bool]


CLIENTS_MAX = 1_024  # cached clients per condition


def as_test(condition: c.Condition) -> Test:
    """A function with the same result as ``conditions.holds``, but faster."""
    match condition:
        case c.And(items):
            tests = tuple(map(as_test, items))
            return lambda facts: all(test(facts) for test in tests)
        case c.Or(items):
            tests = tuple(map(as_test, items))
            return lambda facts: any(test(facts) for test in tests)
        case c.Not(item):
            inner = as_test(item)
            return lambda facts: not inner(facts)
        case c.ClientIn(networks):
            return _client_test(networks)
        case c.Like(subject, argument, glob) if "*" in glob and subject != "host":
            parsed = Glob.parse(glob.lower())

            def is_like(facts: c.Facts) -> bool:
                text = facts.text(subject, argument)
                return text is not None and parsed.matches(text.lower())

            return is_like
        case _:
            return lambda facts: c.holds(condition, facts)


def _client_test(networks: tuple[str, ...]) -> Test:
    parsed = [ip_network(network) for network in networks]
    spans = {
        version: [(int(one.network_address), int(one.broadcast_address)) for one in parsed if one.version == version]
        for version in (4, 6)
    }

    @lru_cache(CLIENTS_MAX)
    def has(client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        number = int(address)
        return any(low <= number <= high for low, high in spans[address.version])

    def is_in(facts: c.Facts) -> bool:
        client = facts.text("client", "")
        return client is not None and has(client)

    return is_in
