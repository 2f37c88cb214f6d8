"""Longest-prefix lookup finds what comparing with every network finds."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from qosweb.blocklist.operations import Network, parse_target, prefix_of
from qosweb.blocklist.prefix_table import PrefixTable


def network(version: int, bits: int, length: int) -> Network:
    kind, width = (ipaddress.IPv4Network, 32) if version == 4 else (ipaddress.IPv6Network, 128)
    return kind((bits >> (width - length) << (width - length) if length else 0, length))


# Few different bits, so that prefixes contain each other
FOURS = st.builds(
    lambda a, b, n: network(4, a << 24 | b << 8 | b, n), st.integers(0, 3), st.integers(0, 3), st.integers(0, 32)
)
SIXES = st.builds(
    lambda a, b, n: network(6, a << 112 | b << 60 | b, n), st.integers(0, 3), st.integers(0, 3), st.integers(0, 128)
)
NETWORKS = st.lists(st.one_of(FOURS, SIXES), max_size=30)


def table_of(networks: list[Network]) -> PrefixTable[str]:
    table: PrefixTable[str] = PrefixTable()
    for one in networks:
        prefix = prefix_of(str(one))
        assert prefix is not None
        table.put(prefix, str(one))
    return table


def expected(networks: list[Network], client: str) -> list[str]:
    address = ipaddress.ip_address(client)
    found = {one for one in networks if one.version == address.version and address in one}
    return [str(one) for one in sorted(found, key=lambda one: -one.prefixlen)]


@given(NETWORKS, st.data())
def test_lookup(networks: list[Network], data: st.DataObject) -> None:
    table = table_of(networks)
    assert len(table) == len(set(networks))
    gone = data.draw(st.lists(st.sampled_from(networks), unique=True)) if networks else []
    for one in gone:
        prefix = prefix_of(str(one))
        assert prefix is not None
        table.remove(prefix)
        table.remove(prefix)  # a second time: nothing happens
    left = [one for one in networks if one not in gone]
    assert len(table) == len(set(left))
    for one in [*networks, network(4, 2**32 - 1, 32), network(6, 1, 128)]:
        client = str(one.network_address)
        found = expected(left, client)
        assert list(table.matches(client)) == found
        assert table.longest(client) == (found[0] if found else None)


def test_forms_of_an_address() -> None:
    table = table_of([parse_target("203.0.113.0/24"), parse_target("2001:db8::/32"), parse_target("fe80::/10")])
    assert table.longest("::ffff:203.0.113.9") == "203.0.113.0/24"
    assert table.longest("2001:db8::1") == "2001:db8::/32"
    assert table.longest("fe80::1%eth0") == "fe80::/10"
    assert table.longest("unix") is None
    assert table.longest("") is None
    assert table.longest("203.0.114.1") is None
