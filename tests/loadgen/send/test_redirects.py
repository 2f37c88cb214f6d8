"""Redirects are followed and counted, and never lead to other machines by accident."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loadgen.results import outcomes as o
from loadgen.trace.request import TraceRequest
from tests.loadgen.runs import evenly, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _to(location: str, status: int = 307) -> Callable[[Talk], None]:
    def script(talk: Talk) -> None:
        if talk.path.startswith("/there"):
            talk.send(OK)
        else:
            talk.send(f"HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

    return script


@pytest.mark.parametrize("location", ["/there", "there", "/there#part", "//127.0.0.1:{port}/there"])
def test_followed_and_counted(location: str, tmp_path: Path) -> None:
    with MisbehavingServer(lambda talk: _to(location.format(port=server.port))(talk)) as server:
        ran = run(tmp_path, evenly(5, 100, "/here"), "--target", server.url)
    assert ran.outcomes == {"accepted": 5}
    assert (ran.summary["all"]["redirects"], ran.summary["all"]["redirected"]) == (5, 5)
    assert {result["redirects"] for result in ran.results} == {1}


def test_to_another_server_of_this_machine_with_the_fields_of_the_request(tmp_path: Path) -> None:
    with MisbehavingServer(_to("/never")) as other, MisbehavingServer(_to(f"{other.url}/there")) as server:
        trace = [TraceRequest(0.0, "/here", "GET", "A", {"Cookie": "a=b"})]
        ran = run(tmp_path, trace, "--target", server.url)
        assert b"Cookie: a=b" in other.heads[0]
        assert f"Host: 127.0.0.1:{other.port}".encode() in other.heads[0]
    assert ran.outcomes == {"accepted": 1}


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "HEAD", "HEAD"), (307, "POST", "POST"),
     (308, "POST", "POST"), (301, "GET", "GET")],
)  # fmt: skip
def test_the_method_after_a_redirect(status: int, method: str, then: str, tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

    def script(talk: Talk) -> None:
        if talk.path == "/there":
            talk.send(answer)
        else:
            _to("/there", status)(talk)

    with MisbehavingServer(script) as server:
        ran = run(tmp_path, [TraceRequest(0.0, "/here", method, "A")], "--target", server.url)
        assert server.heads[1].startswith(f"{then} /there ".encode())
    assert ran.outcomes == {"accepted": 1}


def test_a_host_named_by_the_trace_stays_with_its_target(tmp_path: Path) -> None:
    with MisbehavingServer(_to("http://shop.example/there")) as server:
        ran = run(tmp_path, [TraceRequest(0.0, "http://shop.example/here", "GET", "A")], "--target", server.url)
        assert b"Host: shop.example" in server.heads[1]
    assert ran.outcomes == {"accepted": 1}


@pytest.mark.parametrize(
    ("location", "cause"),
    [
        ("/again", o.REDIRECTS),
        ("http://192.0.2.1/there", o.REDIRECT_AWAY),
        ("http://shop.example/there", o.REDIRECT_AWAY),
        ("", o.BAD_REDIRECT),
        ("ftp://127.0.0.1/x", o.BAD_REDIRECT),
        ("http://127.0.0.1:99999/", o.BAD_REDIRECT),
        ("/with space", o.BAD_REDIRECT),
    ],
)
def test_a_redirect_that_is_not_followed_is_a_failure(location: str, cause: str, tmp_path: Path) -> None:
    with MisbehavingServer(_to(location)) as server:
        ran = run(tmp_path, evenly(2, 100, "/here"), "--target", server.url, "--redirects", "3")
    assert ran.causes == {cause: 2}


def test_not_followed_on_request(tmp_path: Path) -> None:
    with MisbehavingServer(_to("/there")) as server:
        ran = run(tmp_path, evenly(5, 100, "/here"), "--target", server.url, "--redirects", "0")
    assert ran.outcomes == {"redirected": 5}
