"""Header fields of forwarded messages: hop-by-hop fields and framing are dropped, Via and the client are added."""

from __future__ import annotations

import pytest

from qosweb.http.hops import Fields, end_to_end_fields, is_forwarding_loop, request_fields, response_fields


def test_hop_by_hop_fields_are_dropped() -> None:
    fields = [
        ("Connection", "close, X-Mine"),
        ("connection", "keep-alive"),
        ("X-Mine", "1"),
        ("x-mine", "2"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "5"),
        ("Transfer_Encoding", "chunked"),
        ("content_length", "5"),
        ("Proxy_Connection", "keep-alive"),
        ("Upgrade", "websocket"),
        ("Proxy-Authorization", "secret"),
        ("Accept", "*/*"),
        ("X_Other", "1"),
        ("Cookie", "a=b"),
        ("Set-Cookie", "a=b"),
        ("Set-Cookie", "c=d"),
    ]
    assert end_to_end_fields(fields) == [
        ("Accept", "*/*"),
        ("X_Other", "1"),
        ("Cookie", "a=b"),
        ("Set-Cookie", "a=b"),
        ("Set-Cookie", "c=d"),
    ]


def asked(fields: Fields, *, is_trusted: bool = False) -> Fields:
    return request_fields(
        fields, host="shop.example:80", peer="192.0.2.1", is_trusted=is_trusted, proto="http", me="n1", version="1.1"
    )


def test_a_request_gets_via_forwarded_and_one_host() -> None:
    fields = asked([("Host", "a"), ("hOST", "b"), ("Expect", "100-continue"), ("Accept", "*/*")])
    assert fields == [
        ("Host", "shop.example:80"),
        ("Accept", "*/*"),
        ("Via", "1.1 n1"),
        ("Forwarded", 'for=192.0.2.1;host="shop.example:80";proto=http'),
        ("X-Forwarded-For", "192.0.2.1"),
        ("X-Forwarded-Host", "shop.example:80"),
        ("X-Forwarded-Proto", "http"),
    ]
    again = asked([("Via", "1.0 other"), ("Forwarded", "for=_x"), ("via", "1.1 third")], is_trusted=True)
    assert ("Via", "1.0 other, 1.1 third, 1.1 n1") in again
    assert ("Forwarded", 'for=_x, for=192.0.2.1;host="shop.example:80";proto=http') in again


@pytest.mark.parametrize("name", ["Host", "Via", "Forwarded", "X-Forwarded-For", "Content-Length"])
def test_a_client_cannot_remove_via_and_forwarded_by_connection(name: str) -> None:
    names = [field for field, _ in asked([("Connection", f"close, {name}"), (name, "x")])]
    assert {"Host", "Via", "Forwarded", "X-Forwarded-For"} <= set(names)


def test_a_response_keeps_its_own_fields() -> None:
    fields = [("Server", "x"), ("Date", "now"), ("Set-Cookie", "a"), ("Set-Cookie", "b"), ("Via", "1.1 far")]
    assert response_fields([*fields, ("Connection", "close")], me="n1", version="1.1") == [
        *fields[:-1],
        ("Via", "1.1 far, 1.1 n1"),
    ]


def test_a_forwarding_loop_is_detected() -> None:
    assert is_forwarding_loop([("Via", "1.1 a, 1.0 n1 (x)")], "n1")
    assert not is_forwarding_loop([("Via", "1.1 n10, 1.1 an1"), ("X", "1.1 n1")], "n1")
