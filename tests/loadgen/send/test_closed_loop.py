"""Closed loops, like wrk: each client sends its next request when it has its response."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from loadgen.cli import main
from tests.loadgen.runs import evenly, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk, free_port

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing


def _ok(talk: Talk) -> None:
    talk.send(OK)


def test_number_of_clients_and_duration(capsys: pytest.CaptureFixture[str]) -> None:
    with MisbehavingServer(_ok) as server:
        code = main(["run", f"{server.url}/page?x=1", "-c", "4", "-z", "500ms", "--json", "--quiet"])
        assert server.connections == 4
        assert server.heads[0].startswith(b"GET /page?x=1 HTTP/1.1")
        requests = server.requests
    summary = json.loads(capsys.readouterr().out)
    assert code == 0
    assert summary["all"]["outcomes"]["accepted"] == summary["all"]["requests"] == requests > 10
    assert summary["lasted_s"] >= 0.5


def test_results_on_standard_output_are_nothing_but_results(capfd: pytest.CaptureFixture[str]) -> None:
    with MisbehavingServer(_ok) as server:
        assert main(["run", f"{server.url}/", "-c", "2", "-z", "200ms", "--out", "-", "--quiet"]) == 0
    output, errors = capfd.readouterr()
    assert [set(json.loads(line)) >= {"n", "outcome"} for line in output.splitlines()[1:3]] == [True, True]
    assert all(line.startswith("{") for line in output.splitlines())
    assert "closed loop, 2 clients" in errors


def test_trace_is_repeated_without_its_times(tmp_path: Path) -> None:
    trace = evenly(2, 0.01, "/a")
    with MisbehavingServer(_ok) as server:
        ran = run(tmp_path, trace, "--target", server.url, "-c", "2", "-z", "500ms", "--processes", "2")
    assert ran.outcomes.keys() == {"accepted"}
    assert ran.summary["all"]["requests"] == len(ran.results) > 10
    assert len({result["n"] for result in ran.results}) == len(ran.results)


def test_requests_in_flight_are_completed(tmp_path: Path) -> None:
    def slow(talk: Talk) -> None:
        talk.pause(1.0)
        talk.send(OK)

    with MisbehavingServer(slow) as server:
        ran = run(tmp_path, evenly(1, 1), "--target", server.url, "-c", "3", "-z", "200ms")
    assert ran.outcomes == {"accepted": 3}
    assert ran.p("50") >= 1000


def test_pauses_limit_the_request_rate(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        ran = run(tmp_path, evenly(1, 1), "--target", server.url, "-c", "20", "-z", "1s", "--pause", "100ms")
    assert ran.outcomes.keys() == {"accepted"}
    most = 20 * ran.summary["lasted_s"] / 0.1  # by a server that takes no time
    assert 20 < ran.summary["all"]["requests"] < most + 5 * most**0.5


def test_failures_do_not_become_a_storm(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    ran = run(tmp_path, evenly(1, 1), "--target", url, "-c", "2", "-z", "500ms")
    assert ran.outcomes.keys() == {"failed"}
    assert ran.summary["all"]["requests"] <= 2 * (ran.summary["lasted_s"] / 0.01 + 2)
