"""Requests with bodies: the body in the trace arrives, and errors are reported before anything is sent."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from msgspec import UNSET

from loadgen.cli import main
from loadgen.send.request_bodies import Bodies
from loadgen.trace.files import read_trace
from loadgen.trace.request import BODY_MAX, TraceRequest
from tests.loadgen.runs import run
from tests.support.misbehaving import OK, MisbehavingServer, Talk

if TYPE_CHECKING:
    from pathlib import Path

Arrived = tuple[str, str, str, str]  # method, path, content type, body or its hash


class Keeper:
    """A server's script that keeps what arrives, and redirects /moved with 307 and /seen with 303."""

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []

    def __call__(self, talk: Talk) -> None:
        body = talk.read(int(talk.field("Content-Length") or 0))
        shown = body.decode("ascii", "replace") if len(body) < 50 else hashlib.sha256(body).hexdigest()
        self.arrived.append((talk.head.split(b" ")[0].decode(), talk.path, talk.field("Content-Type") or "", shown))
        if talk.path in ("/moved", "/seen"):
            status = 307 if talk.path == "/moved" else 303
            talk.send(b"HTTP/1.1 %d Go\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n" % status)
        else:
            talk.send(OK)


def post(at: int, url: str, body: int | str, **headers: str) -> TraceRequest:
    return TraceRequest(at / 100, url, "POST", "A", headers or UNSET, body)


def test_bytes_made_up_and_files_arrive_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"order": 1}')
    keeper = Keeper()
    large = hashlib.sha256(Bodies().of(3_000_000)).hexdigest()
    trace = [
        post(0, "/file", str(file), **{"content-type": "application/json"}),
        post(1, "/large", 3_000_000),
        post(2, "/none", 0),
        TraceRequest(0.03, "/plain", "POST", "A"),
    ]
    with MisbehavingServer(keeper) as server:
        ran = run(tmp_path, trace, "--target", server.url, "--connections", "1")
    assert ran.outcomes == {"accepted": 4}
    assert keeper.arrived == [
        ("POST", "/file", "application/json", '{"order": 1}'),
        ("POST", "/large", "application/octet-stream", large),
        ("POST", "/none", "application/octet-stream", ""),
        ("POST", "/plain", "", ""),
    ]
    assert [result.get("body") for result in ran.results] == [str(file), 3_000_000, 0, None]


def test_a_redirect_takes_the_body_along_unless_it_becomes_a_get(tmp_path: Path) -> None:
    keeper = Keeper()
    with MisbehavingServer(keeper) as server:
        ran = run(tmp_path, [post(0, "/moved", 10), post(1, "/seen", 10)], "--target", server.url, "--connections", "1")
    assert ran.outcomes == {"accepted": 2}
    assert sorted(keeper.arrived) == [
        ("GET", "/there", "", ""),
        ("POST", "/moved", "application/octet-stream", "bytes that"),
        ("POST", "/seen", "application/octet-stream", "bytes that"),
        ("POST", "/there", "application/octet-stream", "bytes that"),
    ]


def test_made_sent_and_replayed_by_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "body.txt").write_text("hello")
    trace, results = str(tmp_path / "t.jsonl"), str(tmp_path / "r.jsonl")
    assert main(["trace", "--rate", "100", "--duration", "50ms", "--arrivals", "constant", "--method", "PUT",
                 "--body", f"@{tmp_path}/body.txt", "--out", trace]) == 0  # fmt: skip
    assert {(one.method, one.body) for one in read_trace(trace)} == {("PUT", f"{tmp_path}/body.txt")}
    keeper = Keeper()
    with MisbehavingServer(keeper) as server:
        assert main(["run", trace, "--target", server.url, "--out", results, "--quiet"]) == 0
        assert main(["replay", results, "--quiet"]) == 0
    assert keeper.arrived == [("PUT", "/", "application/octet-stream", "hello")] * 10
    capsys.readouterr()


def test_a_body_for_those_of_a_trace_that_have_none(tmp_path: Path) -> None:
    keeper = Keeper()
    trace = [TraceRequest(0.0, "/get"), TraceRequest(0.01, "/post", "POST"), post(2, "/own", 5)]
    with MisbehavingServer(keeper) as server:
        ran = run(tmp_path, trace, "--target", server.url, "--connections", "1", "--body", "10")
    assert ran.outcomes == {"accepted": 3}
    assert [(method, path, body) for method, path, _, body in keeper.arrived] == [
        ("GET", "/get", ""),
        ("POST", "/post", "bytes that"),
        ("POST", "/own", "bytes"),
    ]


def test_a_closed_loop_posts(capsys: pytest.CaptureFixture[str]) -> None:
    keeper = Keeper()
    with MisbehavingServer(keeper) as server:
        options = ["-c", "2", "-z", "100ms", "--body", "10", "--json", "--quiet"]
        assert main(["run", f"{server.url}/in", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["all"]["outcomes"]["accepted"] == len(keeper.arrived) > 0
    assert set(keeper.arrived) == {("POST", "/in", "application/octet-stream", "bytes that")}


def test_a_file_that_went_away_is_a_failure_with_its_cause(tmp_path: Path) -> None:
    file = tmp_path / "short-lived"
    file.write_text("x")

    def script(talk: Talk) -> None:
        file.unlink()
        talk.send(OK)

    with MisbehavingServer(script) as server:
        ran = run(tmp_path, [TraceRequest(0.0, "/"), post(50, "/", str(file))], "--target", server.url)
    assert ran.outcomes == {"accepted": 1, "failed": 1}
    assert ran.causes == {"its body could not be read": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"t":0,"url":"/","body":5}', "a request with method GET has no body; write POST, PUT or PATCH"),
        ('{"t":0,"url":"/","method":"POST","body":-1}', "a body of -1 bytes; it has to be from 0 to"),
        (f'{{"t":0,"url":"/","method":"POST","body":{BODY_MAX + 1}}}', "has to be from 0 to 16777216"),
        ('{"t":0,"url":"/","method":"POST","body":""}', "body is neither a number of bytes nor the name of a file"),
        ('{"t":0,"url":"/","method":"POST","body":[1]}', "not a request: Expected `int | str`, got `array`"),
        ('{"t":0,"url":"/","method":"POST","body":"gone"}', "request 1 has the body 'gone': No such file or directory"),
    ],
)
def test_bad_bodies_are_told_with_their_place(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text(line + "\n")
    assert main(["run", str(trace), "--target", "http://127.0.0.1:1"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"loadgen: error: {trace}:")
    assert message in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trace", "--rate", "1", "--duration", "1s", "--body", "x"], "--body: 'x' is neither a size such as 4KB nor"),
        (["trace", "--rate", "1", "--duration", "1s", "--body", "@"], "--body: the name of the file is missing"),
        (["trace", "--rate", "1", "--duration", "1s", "--body", "1GB"], "--body: a body of 1073741824 bytes; it has"),
        (
            ["trace", "--rate", "1", "--duration", "1s", "--body", "1", "--method", "GET"],
            "--body: a request with method",
        ),
        (["run", "http://127.0.0.1:1/", "-c", "1", "--method", "A B"], "--method: 'A B' is not the name of an HTTP"),
        (["run", "http://127.0.0.1:1/", "-c", "1", "--method", "CONNECT"], "method CONNECT is not supported"),
    ],
)
def test_mistakes_of_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"loadgen: error: {message}")


def test_options_that_do_not_fit_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text('{"t":0,"url":"/"}\n')
    common = ["run", str(trace), "--target", "http://127.0.0.1:1"]
    assert main([*common, "--body", "5"]) == 2
    assert "t.jsonl has no request with method POST, PUT or PATCH" in capsys.readouterr().err
    assert main([*common, "--method", "POST"]) == 2
    assert "--method is for a URL" in capsys.readouterr().err


def test_bodies_are_held_within_bounds() -> None:
    bodies = Bodies()
    for size in range(BODY_MAX - 20, BODY_MAX):
        assert len(bodies.of(size)) == size
    assert sum(map(len, bodies._held.values())) <= 8 * BODY_MAX
    assert bodies.of(BODY_MAX - 1) is bodies.of(BODY_MAX - 1)
