"""Header fields of forwarded messages: hop-by-hop fields and framing are dropped, Via and Forwarded are added."""

from __future__ import annotations

import pytest

from qosweb.http.hops import Fields, end_to_end_fields, is_forwarding_loop, request_fields


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
        (b"Cookie", b"a=b"),
        (b"Set-Cookie", b"a=b"),
        (b"Set-Cookie", b"c=d"),
    ]
    assert end_to_end_fields(fields) == [
        (b"Accept", b"*/*"),
        (b"X_Other", b"1"),
        (b"Cookie", b"a=b"),
        (b"Set-Cookie", b"a=b"),
        (b"Set-Cookie", b"c=d"),
    ]


def asked(fields: Fields, client: str = "192.0.2.1") -> Fields:
    return request_fields(
        fields, host="shop.example:80", client=client, proto="http", me=b"n1", version=b"1.1", rid=b"r-1"
    )


def test_a_request_gets_via_forwarded_and_one_host() -> None:
    fields = asked([(b"Host", b"a"), (b"hOST", b"b"), (b"Expect", b"100-continue"), (b"Accept", b"*/*")])
    assert fields == [
        (b"Host", b"shop.example:80"),
        (b"Accept", b"*/*"),
        (b"Via", b"1.1 n1"),
        (b"Forwarded", b'for=192.0.2.1;host="shop.example:80";proto=http'),
        (b"X-Request-Id", b"r-1"),
    ]
    again = asked([(b"Via", b"1.0 other"), (b"Forwarded", b"for=_x"), (b"via", b"1.1 third")])
    assert (b"Via", b"1.0 other, 1.1 third, 1.1 n1") in again
    assert (b"Forwarded", b'for=_x, for=192.0.2.1;host="shop.example:80";proto=http') in again


@pytest.mark.parametrize("name", [b"Host", b"Via", b"Forwarded", b"Content-Length"])
def test_a_client_cannot_remove_via_and_forwarded_by_connection(name: bytes) -> None:
    names = [field for field, _ in asked([(b"Connection", b"close, " + name), (name, b"x")])]
    assert {b"Host", b"Via", b"Forwarded"} <= set(names)


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
    assert dict(asked([], client))[b"Forwarded"].startswith(shown + b";")


def test_a_forwarding_loop_is_detected() -> None:
    assert is_forwarding_loop([(b"Via", b"1.1 a, 1.0 n1 (x)")], b"n1")
    assert not is_forwarding_loop([(b"Via", b"1.1 n10, 1.1 an1"), (b"X", b"1.1 n1")], b"n1")


@pytest.mark.parametrize(
    ("sent", "passed"), [([b"5"], b"4"), ([b"0"], b"0"), ([b"x"], None), ([b"1", b"2"], None), ([b"9" * 30], None)]
)
def test_max_forwards_is_lowered(sent: list[bytes], passed: bytes | None) -> None:
    fields = asked([(b"Max-Forwards", value) for value in sent])
    assert dict(fields).get(b"Max-Forwards") == passed


def test_the_request_id_of_a_client_is_replaced_and_its_trace_passes() -> None:
    fields = asked([(b"X-Request-ID", b"theirs"), (b"traceparent", b"00-0af7-b7ad-01")])
    assert [value for name, value in fields if name.lower() == b"x-request-id"] == [b"r-1"]
    assert (b"traceparent", b"00-0af7-b7ad-01") in fields
