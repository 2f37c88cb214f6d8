"""Every behaviour of a server has a named outcome, and every request has an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loadgen.results import outcomes as o
from loadgen.trace.request import TraceRequest
from tests.loadgen.runs import evenly, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk, free_port

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _answering(data: bytes, *, close: bool = False) -> Callable[[Talk], None]:
    def script(talk: Talk) -> None:
        talk.send(data)
        if close:
            talk.close()

    return script


def _refuse_nothing_say_nothing(talk: Talk) -> None:
    talk.hang()


def _drip(talk: Talk) -> None:
    """A byte now and then: always alive, never done."""
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n")
    while not talk.stopping.is_set():
        talk.send(b"x")
        talk.pause(0.02)


def _endless_head(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\n")
    while not talk.stopping.is_set():
        talk.send(b"X-Filler: " + b"x" * 1000 + b"\r\n")


def _reset_within(talk: Talk) -> None:
    """Both are there when the client looks."""
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    talk.reset()


FAILURES: dict[str, tuple[Callable[[Talk], None], str]] = {
    "reset": (Talk.reset, o.RESET),
    "reset within the answer": (_reset_within, f"{o.RESET} within the answer"),
    "closed": (Talk.close, o.CLOSED),
    "cut off": (_answering(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", close=True), o.CUT_OFF),
    "cut off within the head": (_answering(b"HTTP/1.1 200 OK\r\nContent-", close=True), o.CUT_OFF),
    "stalled": (_refuse_nothing_say_nothing, o.TIMEOUT),
    "dripping": (_drip, o.TIMEOUT),
    "garbage": (_answering(b"\x16\x03\x01 SSH-2.0-hello\r\n\r\n"), "bad answer: not an HTTP response"),
    "garbage without an end": (_answering(b"SSH-2.0-hello"), "bad answer: not an HTTP response"),
    "an endless head": (_endless_head, "bad answer: a head of more than"),
    "two lengths": (
        _answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "bad answer: Content-Length",
    ),
    "length and chunks": (
        _answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "bad answer: Content-Length and Transfer-Encoding",
    ),
    "a bad chunk": (
        _answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n"),
        "bad answer: the size of a chunk is not a hexadecimal number",
    ),
    "huge": (_answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"), "bad answer: a response of 5000 bytes"),
    "404": (_answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), "status 404"),
    "500": (_answering(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "status 500"),
    "interim for ever": (_answering(b"HTTP/1.1 100 Continue\r\n\r\n" * 20), "bad answer: unexpected status 100"),
    "switching protocols": (_answering(b"HTTP/1.1 101 Switching\r\n\r\n"), "bad answer: unexpected status 101"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_named_by_its_cause(kind: str, tmp_path: Path) -> None:
    script, cause = FAILURES[kind]
    with MisbehavingServer(script) as server:
        timeout = "300ms" if cause == o.TIMEOUT else "20s"
        ran = run(tmp_path, evenly(5, 100), "--target", server.url, "--timeout", timeout, "--body-max", "4000")
    assert ran.code == 0
    assert ran.outcomes == {"failed": 5}
    assert len(ran.causes) == 1
    assert next(iter(ran.causes)).startswith(cause)
    assert all(result["cause"].startswith(cause) for result in ran.results)


def test_no_server_listens(tmp_path: Path) -> None:
    ran = run(tmp_path, evenly(5, 100), "--target", f"http://127.0.0.1:{free_port()}")
    assert ran.causes == {o.REFUSED: 5}


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: yes\r\n\r\n",
    ],
)
def test_whole_answers_are_accepted_and_the_connection_is_used_again(answer: bytes, tmp_path: Path) -> None:
    with MisbehavingServer(_answering(answer)) as server:
        ran = run(tmp_path, evenly(20, 100), "--target", server.url, "--connections", "1")
        assert server.connections == 1
    assert ran.outcomes == {"accepted": 20}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    ],
)
def test_answers_that_end_with_the_connection(answer: bytes, tmp_path: Path) -> None:
    with MisbehavingServer(_answering(answer, close=True)) as server:
        ran = run(tmp_path, evenly(10, 100), "--target", server.url)
        assert server.connections == 10
    assert ran.outcomes == {"accepted": 10}


def test_head_requests_have_no_body_whatever_their_answer_says(tmp_path: Path) -> None:
    trace = [TraceRequest(at / 100, "/", "HEAD", "A") for at in range(10)]
    with MisbehavingServer(_answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")) as server:
        ran = run(tmp_path, trace, "--target", server.url, "--connections", "1")
    assert ran.outcomes == {"accepted": 10}


def test_denials_are_told_with_class_and_reason(tmp_path: Path) -> None:
    def deny(talk: Talk) -> None:
        status = b"503 Service Unavailable" if talk.path == "/a" else b"429 Too Many Requests"
        decision = b"QoS-Class: </a>\r\nQoS-Decision: denied; over its share\r\n" if talk.path == "/a" else b""
        talk.send(b"HTTP/1.1 " + status + b"\r\n" + decision + b"Retry-After: 1\r\nContent-Length: 0\r\n\r\n")

    trace = [TraceRequest(at / 100, "/a" if at % 2 else "/b", "GET", "A" if at % 2 else "") for at in range(10)]
    with MisbehavingServer(deny) as server:
        ran = run(tmp_path, trace, "--target", server.url)
    assert ran.outcomes == {"denied": 10}
    assert ran.summary["classes"]["A"]["denied_by_reason"] == {"denied; over its share": 5}
    assert ran.summary["classes"]["A"]["answered_as"] == {"</a>": 5}
    assert ran.summary["classes"]["-"]["denied_by_reason"] == {"status 429": 5}
    assert {result["reason"] for result in ran.results} == {"denied; over its share", "status 429"}


def test_without_a_class_in_the_trace_the_answer_names_it(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 200 OK\r\nQoS-Class: gold\r\nContent-Length: 0\r\n\r\n"
    with MisbehavingServer(_answering(answer)) as server:
        ran = run(tmp_path, evenly(5, 100, class_name=""), "--target", server.url)
    assert ran.summary["classes"].keys() == {"gold"}


def test_a_server_that_closes_between_requests_costs_a_retry_and_no_failure(tmp_path: Path) -> None:
    def close_on_the_second(talk: Talk) -> None:
        if talk.number % 2 == 0:
            talk.close()
        else:
            talk.send(OK)

    with MisbehavingServer(close_on_the_second) as server:
        ran = run(tmp_path, evenly(10, 50), "--target", server.url, "--connections", "1")
    assert ran.outcomes == {"accepted": 10}
    assert ran.summary["all"]["retries"] == 9


def test_unrequested_data_is_counted(tmp_path: Path) -> None:
    with MisbehavingServer(_answering(OK + OK)) as server:
        ran = run(tmp_path, evenly(5, 20), "--target", server.url)
    assert ran.outcomes == {"accepted": 5}
    assert ran.summary["unasked"] == 5


def test_a_target_that_never_takes_the_connection(tmp_path: Path) -> None:
    """Its backlog is full: the kernel does not answer, and the connection attempt runs out of time."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fill = [socket.socket() for _ in range(4)]
        try:
            for sock in fill:
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", port))
            ran = run(
                tmp_path, evenly(3, 100), "--target", f"http://127.0.0.1:{port}", "--connect-timeout", "200ms",
                "--timeout", "500ms",
            )  # fmt: skip
        finally:
            for sock in fill:
                sock.close()
    assert ran.causes == {o.CONNECT_TIMEOUT: 3}
