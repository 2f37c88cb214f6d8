"""Header fields of forwarded messages: hop-by-hop fields and framing are dropped, Via and Forwarded are extended."""

from __future__ import annotations

import pytest

from qosweb.http.hops import OutgoingFields, client_lines, outgoing_fields
from qosweb.http.request_heads import RequestHeads


def asked(*fields: tuple[bytes, bytes]) -> OutgoingFields:
    lines = [b"%b: %b\r\n" % field for field in fields if field[0].lower() != b"host"]
    head = b"".join([b"GET / HTTP/1.1\r\nhOST: a\r\n", *lines, b"\r\n"])
    return outgoing_fields(RequestHeads(100).read(head), me=b"n1")


def test_hop_by_hop_fields_are_dropped() -> None:
    fields = [
        (b"Connection", b"close, X-Mine"),
        (b"connection", b"keep-alive"),
        (b"X-Mine", b"1"),
        (b"x-mine", b"2"),
        (b"Keep-Alive", b"timeout=5"),
        (b"TE", b"trailers"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Transfer_Encoding", b"chunked"),
        (b"content_length", b"5"),
        (b"Proxy_Connection", b"keep-alive"),
        (b"Upgrade", b"websocket"),
        (b"Proxy-Authorization", b"secret"),
        (b"Accept", b"*/*"),
        (b"X_Other", b"1"),
        (b"Cookie", b"a=\xff"),
        (b"Set-Cookie", b"c=d"),
        (b"Expect", b"100-continue"),
        (b"X-Request-ID", b"theirs"),
        (b"traceparent", b"00-0af7-b7ad-01"),
    ]
    assert asked(*fields) == OutgoingFields(
        b"Accept: */*\r\nX_Other: 1\r\nCookie: a=\xff\r\nSet-Cookie: c=d\r\ntraceparent: 00-0af7-b7ad-01\r\n"
        b"Via: 1.1 n1\r\n",
        (),
        b"theirs",
        is_loop=False,
    )


def test_the_length_is_dropped() -> None:
    assert asked((b"Content-Length", b"5"), (b"A", b"b")).lines == b"A: b\r\nVia: 1.1 n1\r\n"


def test_via_is_extended_and_claims_about_the_client_are_set_apart() -> None:
    again = asked((b"Via", b"1.0 other"), (b"Forwarded", b"for=_x"), (b"via", b"1.1 third"), (b"X_Real_IP", b"1"))
    claims = ((b"Forwarded", b"for=_x"), (b"X_Real_IP", b"1"))
    assert again == OutgoingFields(b"Via: 1.0 other, 1.1 third, 1.1 n1\r\n", claims, b"", is_loop=False)


def test_a_client_cannot_remove_via_by_connection() -> None:
    fields = asked((b"Connection", b"Via, Forwarded, Host"), (b"Via", b"1.0 far"))
    assert fields.lines == b"Via: 1.0 far, 1.1 n1\r\n"


def test_the_claims_of_a_trusted_peer_are_extended_and_others_dropped() -> None:
    claims = ((b"Forwarded", b"for=_x"), (b"X-Forwarded-For", b"10.0.0.1"))
    trusted = client_lines(claims, "192.0.2.1", "shop.example", "http", is_trusted=True)
    assert b'Forwarded: for=_x, for=192.0.2.1;host="shop.example";proto=http\r\n' in trusted
    assert b"X-Forwarded-For: 10.0.0.1, 192.0.2.1\r\n" in trusted
    assert client_lines(claims, "192.0.2.1", "shop.example", "http", is_trusted=False) == (
        b'Forwarded: for=192.0.2.1;host="shop.example";proto=http\r\nX-Forwarded-For: 192.0.2.1\r\n'
        b"X-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: http\r\n"
    )


@pytest.mark.parametrize("sent", [[b"a b"], [b""], [b"x" * 129], [b"a", b"b"], [b"\xe4"]])
def test_request_ids_that_are_not_kept(sent: list[bytes]) -> None:
    assert asked(*((b"X-Request-Id", value) for value in sent)).request_id == b""


def test_a_forwarding_loop_is_detected() -> None:
    assert asked((b"Via", b"1.1 a, 1.0 n1 (x)")).is_loop
    assert not asked((b"Via", b"1.1 n10, 1.1 an1"), (b"X", b"1.1 n1")).is_loop


@pytest.mark.parametrize(("sent", "passed"), [([b"5"], b"4"), ([b"0"], b"0"), ([b"x"], None), ([b"9" * 30], None)])
def test_max_forwards_is_lowered(sent: list[bytes], passed: bytes | None) -> None:
    lines = asked(*((b"Max-Forwards", value) for value in sent)).lines
    assert lines == b"Via: 1.1 n1\r\n" + (b"" if passed is None else b"Max-Forwards: %b\r\n" % passed)
