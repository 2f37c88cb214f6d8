"""Header fields of forwarded messages: hop-by-hop fields and framing are dropped, Via and Forwarded are extended."""

from __future__ import annotations

import pytest

from qosweb.http.hops import OutgoingFields, forwarded_element, outgoing_fields


def asked(*fields: tuple[bytes, bytes]) -> OutgoingFields:
    return outgoing_fields(fields, me=b"n1", version=b"1.1")


def test_hop_by_hop_fields_are_dropped() -> None:
    fields = [
        (b"Connection", b"close, X-Mine"),
        (b"connection", b"keep-alive"),
        (b"X-Mine", b"1"),
        (b"x-mine", b"2"),
        (b"Keep-Alive", b"timeout=5"),
        (b"TE", b"trailers"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Content-Length", b"5"),
        (b"Transfer_Encoding", b"chunked"),
        (b"content_length", b"5"),
        (b"Proxy_Connection", b"keep-alive"),
        (b"Upgrade", b"websocket"),
        (b"Proxy-Authorization", b"secret"),
        (b"Accept", b"*/*"),
        (b"X_Other", b"1"),
        (b"Cookie", b"a=\xff"),
        (b"Set-Cookie", b"c=d"),
        (b"Host", b"a"),
        (b"hOST", b"b"),
        (b"Expect", b"100-continue"),
        (b"X-Request-ID", b"theirs"),
        (b"traceparent", b"00-0af7-b7ad-01"),
    ]
    assert asked(*fields) == OutgoingFields(
        b"Accept: */*\r\nX_Other: 1\r\nCookie: a=\xff\r\nSet-Cookie: c=d\r\ntraceparent: 00-0af7-b7ad-01\r\n"
        b"Via: 1.1 n1\r\n",
        b"",
        is_loop=False,
    )


def test_via_and_forwarded_are_extended() -> None:
    again = asked((b"Via", b"1.0 other"), (b"Forwarded", b"for=_x"), (b"via", b"1.1 third"))
    assert again == OutgoingFields(b"Via: 1.0 other, 1.1 third, 1.1 n1\r\n", b"for=_x, ", is_loop=False)


def test_a_client_cannot_remove_via_and_forwarded_by_connection() -> None:
    fields = asked((b"Connection", b"Via, Forwarded, Host"), (b"Via", b"1.0 far"), (b"Forwarded", b"for=_x"))
    assert fields == OutgoingFields(b"Via: 1.0 far, 1.1 n1\r\n", b"for=_x, ", is_loop=False)


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        ("::1", b'for="[::1]"'),
        ("fe80::1%eth0", b'for="[fe80::1]"'),
        ("unix", b"for=unknown"),
        ("10.0.0.1", b"for=10.0.0.1"),
    ],
)
def test_the_client_as_rfc_7239_writes_it(client: str, shown: bytes) -> None:
    assert forwarded_element(client, "shop.example:80", "http") == shown + b';host="shop.example:80";proto=http'


def test_a_forwarding_loop_is_detected() -> None:
    assert asked((b"Via", b"1.1 a, 1.0 n1 (x)")).is_loop
    assert not asked((b"Via", b"1.1 n10, 1.1 an1"), (b"X", b"1.1 n1")).is_loop


@pytest.mark.parametrize(
    ("sent", "passed"), [([b"5"], b"4"), ([b"0"], b"0"), ([b"x"], None), ([b"1", b"2"], None), ([b"9" * 30], None)]
)
def test_max_forwards_is_lowered(sent: list[bytes], passed: bytes | None) -> None:
    lines = asked(*((b"Max-Forwards", value) for value in sent)).lines
    assert lines == b"Via: 1.1 n1\r\n" + (b"" if passed is None else b"Max-Forwards: %b\r\n" % passed)
