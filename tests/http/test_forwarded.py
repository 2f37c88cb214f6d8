"""Client address behind proxies: X-Forwarded-For, Forwarded, and what the next server is told."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.forwarded import (
    Fields,
    TrustedNetworks,
    fields_for_next_server,
    is_about_client,
    normal_address,
    peer_address,
)

PROXIES = TrustedNetworks([ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48")])
PEER = "10.0.0.1"


def client(*forwarded_for: str, forwarded: tuple[str, ...] = (), peer: str = PEER) -> str:
    return PROXIES.client_of(peer, forwarded_for, forwarded)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:_port", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[192.0.2.1]", None),
        ("[::1]x", None),
        ("[::1", None),
        ("192.0.2.1:", None),
        ("192.0.2.1:123456", None),
        ("192.0.2.256", None),
        ("unknown", None),
        ("_hidden", None),
        ("unix", None),
        ("", None),
    ],
)
def test_addresses_are_normalised(text: str, address: str | None) -> None:
    assert normal_address(text) == address


def test_a_network_has_its_addresses_in_every_form() -> None:
    inside = ("10.1.2.3", "::ffff:10.1.2.3", "10.1.2.3:80", "2001:db8:1::5", "2001:db8:1::5%eth0")
    assert all(address in PROXIES for address in (*inside, *inside))
    assert not any(address in PROXIES for address in ("11.0.0.1", "2001:db8:2::5", "::1", "unix", ""))
    assert not TrustedNetworks()
    assert "10.0.0.1" not in TrustedNetworks()


def test_the_client_is_the_last_untrusted_address() -> None:
    assert client("192.0.2.7") == "192.0.2.7"
    assert client("1.1.1.1, 192.0.2.7") == "192.0.2.7"  # whatever its client claimed
    assert client("1.1.1.1, 192.0.2.7, 10.0.0.9") == "192.0.2.7"
    assert client("192.0.2.7", " 10.0.0.9 ,, 2001:db8:1::1") == "192.0.2.7"
    assert client("10.0.0.7, 10.0.0.9") == "10.0.0.7"  # a client within the trusted network
    assert client() == PEER
    assert client("", " , ") == PEER


def test_an_element_that_is_not_an_address_ends_the_search() -> None:
    assert client("192.0.2.7, unknown") == PEER
    assert client("192.0.2.7, junk, 10.0.0.9") == "10.0.0.9"
    assert client("junk, 192.0.2.7") == "192.0.2.7"


def test_the_address_of_a_peer_is_ipv4_if_it_is_mapped() -> None:
    assert peer_address("::ffff:192.0.2.7") == peer_address("192.0.2.7") == "192.0.2.7"
    for other in ("::1", "2001:db8::ffff:1", "::ffff:1:2:3", "fe80::1%eth0"):
        assert peer_address(other) == other


def test_others_are_not_believed() -> None:
    assert client("192.0.2.7", forwarded=("for=192.0.2.8",), peer="192.0.2.9") == "192.0.2.9"
    assert TrustedNetworks().client_of(PEER, ["192.0.2.7"], ["for=192.0.2.8"]) == PEER


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("for=192.0.2.7",), "192.0.2.7"),
        (("For=1.1.1.1;proto=http, for=192.0.2.7; host=x;by=_a",), "192.0.2.7"),
        (("for=1.1.1.1", 'proto=http;for="192.0.2.7:4711"', "for=10.0.0.3"), "192.0.2.7"),
        (('for="[2001:db8::7]:99"',), "2001:db8::7"),
        ((r'for="192.0.2.\7"',), "192.0.2.7"),
        (("for=unknown",), PEER),
        (('for=192.0.2.7, for="_x"',), PEER),
        (("for=192.0.2.7, proto=http",), PEER),  # written by a proxy that hides the client
        ((";;for=192.0.2.7;, ,",), "192.0.2.7"),
        # malformed: counts as absent
        (('for=192.0.2.7, for="1',), PEER),
        (("for=[2001:db8::7]",), PEER),
        (("for=192.0.2.7 x",), PEER),
        (("for=192.0.2.7;for=192.0.2.8",), PEER),
        (("for = 192.0.2.7",), PEER),
        (("for=",), PEER),
        (("192.0.2.7",), PEER),
    ],
)
def test_forwarded_is_read_as_rfc_7239_says(lines: tuple[str, ...], found: str) -> None:
    assert client(forwarded=lines) == found


def test_two_fields_that_disagree_are_not_believed() -> None:
    assert client("192.0.2.7", forwarded=("for=192.0.2.7",)) == "192.0.2.7"
    assert client("192.0.2.7", forwarded=("for=1.1.1.1",)) == PEER  # one is the client's own
    assert client("192.0.2.7", forwarded=("proto=https",)) == "192.0.2.7"
    assert client("192.0.2.7", forwarded=('for="1.1.1.1',)) == "192.0.2.7"


@given(
    st.lists(st.text(max_size=40), max_size=3), st.lists(st.text(alphabet='for=;,"\\ 1.:[]a', max_size=40), max_size=3)
)
def test_any_text_is_read(forwarded_for: list[str], forwarded: list[str]) -> None:
    found = client(*forwarded_for, forwarded=tuple(forwarded))
    assert normal_address(found) == found


def told(fields: Fields, *, is_trusted: bool, peer: str = PEER) -> dict[str, str]:
    written = fields_for_next_server(fields, peer=peer, host="shop.example", proto="http", is_trusted=is_trusted)
    assert len({name.lower() for name, _ in written}) == len(written)
    return dict(written)


OURS = {
    "Forwarded": 'for=10.0.0.1;host="shop.example";proto=http',
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-Host": "shop.example",
    "X-Forwarded-Proto": "http",
}


def test_claims_of_untrusted_peers_are_dropped() -> None:
    claims = [(name, "x") for name in ("Forwarded", "X-Forwarded-For", "x-forwarded-proto", "X-Real-IP", "X_Real_Ip")]
    assert told(claims, is_trusted=False) == OURS
    assert told([("X_Forwarded_For", "x"), ("X-Forwarded_Host", "x")], is_trusted=True) == OURS
    assert all(is_about_client(name) for name, _ in claims)
    assert not is_about_client("X-Forwarded")
    assert not is_about_client("Accept")


def test_claims_of_trusted_proxies_are_extended_or_kept() -> None:
    fields = [
        ("Forwarded", "for=192.0.2.7"),
        ("forwarded", 'for="[2001:db8::7]"'),
        ("X-Forwarded-For", "192.0.2.7, 2001:db8::7"),
        ("X-Forwarded-Proto", "https"),
        ("X-Real-IP", "192.0.2.7"),
        ("Accept", "*/*"),
    ]
    assert told(fields, is_trusted=True) == {
        "X-Forwarded-Proto": "https",
        "X-Real-IP": "192.0.2.7",
        "Forwarded": f'for=192.0.2.7, for="[2001:db8::7]", {OURS["Forwarded"]}',
        "X-Forwarded-For": "192.0.2.7, 2001:db8::7, 10.0.0.1",
        "X-Forwarded-Host": "shop.example",
    }


def test_a_malformed_forwarded_cannot_swallow_ours() -> None:
    assert told([("Forwarded", 'for="192.0.2.7')], is_trusted=True) == OURS
    assert told([("Forwarded", "for=192.0.2.7"), ("Forwarded", 'a="')], is_trusted=True) == OURS


@pytest.mark.parametrize(
    ("peer", "in_forwarded", "in_list"),
    [
        ("::1", 'for="[::1]"', "::1"),
        ("fe80::1%eth0", 'for="[fe80::1]"', "fe80::1"),
        ("unix", "for=unknown", "unknown"),
    ],
)
def test_the_peer_as_both_fields_write_it(peer: str, in_forwarded: str, in_list: str) -> None:
    fields = told([], is_trusted=False, peer=peer)
    assert fields["Forwarded"].startswith(in_forwarded + ";")
    assert fields["X-Forwarded-For"] == in_list
