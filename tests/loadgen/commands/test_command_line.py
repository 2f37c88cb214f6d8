"""The commands as a user types them: their output, and a one-line error for invalid input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from loadgen.cli import main
from loadgen.trace.files import read_trace

if TYPE_CHECKING:
    from pathlib import Path

TRACE = ["trace", "--rate", "100", "--duration", "10s", "--mix", "A=3:/a", "--mix", "B=1:/b/{1..9}", "--zipf", "1"]


@pytest.fixture
def trace(tmp_path: Path) -> str:
    name = str(tmp_path / "t.jsonl")
    assert main([*TRACE, "--out", name]) == 0
    return name


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_same_seed_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    made = []
    for number, (seed, hash_seed) in enumerate((("5", "1"), ("5", "2"), ("6", "1"))):
        name = tmp_path / f"{number}.jsonl{suffix}"
        subprocess.run(
            [sys.executable, "-m", "loadgen.cli", *TRACE, "--flash", "A=x5@3s+2s", "--seed", seed, "--out", str(name)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed}, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        made.append(name.read_bytes())
    assert made[0] == made[1] != made[2]


def test_transformed_traces(trace: str, tmp_path: Path) -> None:
    whole = list(read_trace(trace))

    def made(*arguments: str) -> list[float]:
        name = str(tmp_path / "new.jsonl")
        assert main(["trace", *arguments, "--out", name]) == 0
        return [request.t for request in read_trace(name)]

    assert len(made(trace, trace)) == 2 * len(whole)
    assert len(made(trace, "--rate", "x2")) == 2 * len(whole)
    assert made(trace, "--speed", "2")[-1] == pytest.approx(whole[-1].t / 2, abs=1e-6)
    assert made(trace, "--from", "2s", "--to", "4s") == pytest.approx(
        [r.t - 2 for r in whole if 2 <= r.t < 4], abs=1e-6
    )
    assert len(made(trace, "--class", "B")) == sum(r.class_name == "B" for r in whole)


def test_header_fields_of_all_classes_and_of_one(tmp_path: Path) -> None:
    name = str(tmp_path / "t.jsonl")
    fields = ["--header", "Accept-Language: fr", "--header", "A=X-Plan: gold", "--header", "A=Cookie: a=b; c"]
    assert main([*TRACE, *fields, "--out", name]) == 0
    found = {(request.class_name, str(request.headers)) for request in read_trace(name)}
    assert found == {
        ("A", str({"Accept-Language": "fr", "X-Plan": "gold", "Cookie": "a=b; c"})),
        ("B", str({"Accept-Language": "fr"})),
    }


def test_a_class_may_be_named_after_its_pages(tmp_path: Path) -> None:
    name = str(tmp_path / "t.jsonl")
    mix = ["--mix", "/free=2:/free/{1..9}", "--mix", "/paid/full=1:http://h/x", "--mix", "/search?q=1:2"]
    assert main(["trace", "--rate", "50", "--duration", "9s", *mix, "--header", "/free=X: 1", "--out", name]) == 0
    found = {(request.class_name, request.url[:6], bool(request.headers)) for request in read_trace(name)}
    assert found == {("/free", "/free/", True), ("/paid/full", "http:/", False), ("", "/searc", False)}


def test_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["trace", "--rate", "5", "--duration", "2s", "--arrivals", "constant"]) == 0
    output, errors = capfdbinary.readouterr()
    assert len(output.splitlines()) == 10
    assert json.loads(output.splitlines()[1]) == {"t": 0.2, "method": "GET", "url": "/", "class": ""}
    assert errors == b""


def test_into_a_pipe_that_closes() -> None:
    script = f"{sys.executable} -m loadgen.cli trace --rate 1000 --duration 100s | head -1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


REFUSED = [
    ([*TRACE, "--header", "C=X-Plan: gold"], "--header: the mix has no class 'C'; it has A, B"),
    ([*TRACE, "--header", "X-Plan gold"], "write 'Name: value', or 'CLASS=Name: value' for one class of the mix"),
    ([*TRACE, "--header", "A=Host: x"], "header 'Host' is set by the load generator itself"),
    ([*TRACE, "--header", "A=X: 1", "--header", "a-b: 1", "--header", "A=x: 2"], "class 'A' has the field 'x' twice"),
    (["trace", "T", "--header", "X: 1"], "--header is for new traces"),
    ([*TRACE, "--begin", "2026-11-18"], "--begin is for access logs"),
    ([*TRACE, "--as-log", "--begin", "soon"], "--begin: 'soon' is not a time such as 2026-11-18T12:00 (UTC)"),
    (["bench"], "unknown command 'bench'"),
    (["ruN"], "did you mean 'run'?"),
    (["run"], "required: TRACE"),
    (["run", "T", "--tarket", "x"], "did you mean '--target'?"),
    (["run", "T"], "--target is missing"),
    (["run", "nowhere", "--target", "http://127.0.0.1:1"], "nowhere: No such file"),
    (["run", "T", "--target", "http://192.0.2.1"], "--allow-remote"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--timeout", "soon"], "--timeout: 'soon' is not a duration"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--timeout", "0s"], "--timeout: '0s' is not greater than 0"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--processes", "0"], "--processes: '0'"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--processes", "999"], "at most 64"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--connections", "999999"], "at most 50000"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--redirects", "-1"], "--redirects"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--header", "Nothing"], "'Name: value'"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--header", "Host: x"], "set by the load generator"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--ca", "nowhere"], "--ca nowhere: no such file"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--assert", "C.served>1%"], "no class 'C'; it has A, B"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--assert", "fine"], "--assert 'fine': not understood"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--spread", "70,30"], "2 weights for 1 targets"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--speed", "0"], "--speed: has to be greater than 0"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--out", "/no/such/folder/x"], "/no/such/folder/x: No such file"),
    (["run", "T", "--target", "http://127.0.0.1:1", "-z", "5s"], "add -c with"),
    (["run", "T", "--target", "http://127.0.0.1:1", "--pause", "5ms"], "--pause is for closed loops"),
    (["run", "http://127.0.0.1:1/"], "add -c 64 -z 10s"),
    (["run", "http://127.0.0.1:1/", "-c", "1", "--target", "http://127.0.0.1:1"], "leave out --target"),
    (["run", "http://192.0.2.1/", "-c", "1"], "--allow-remote"),
    (["replay", "T"], "not a results file"),
    (["report", "T"], "neither results nor a summary"),
    (["report", "nowhere"], "nowhere: No such file"),
    (["trace"], "--rate is missing"),
    (["trace", "--rate", "5"], "add --duration"),
    (["trace", "--rate", "x2", "--duration", "5s"], "is for a given trace"),
    (["trace", "--rate", "5@5s", "--duration", "9s"], "leave out --duration"),
    (["trace", "--rate", "5", "--duration", "5s", "--speed", "2"], "--speed is for given traces"),
    (["trace", "--rate", "5", "--duration", "5s", "--flash", "Z=x2@1s+1s"], "no class 'Z'"),
    (["trace", "--rate", "5", "--duration", "5s", "--seed", "x"], "--seed"),
    (["trace", "--rate", "9999999", "--duration", "9999s"], "requests; the limit is"),
    (["trace", "T", "--rate", "5"], "such as x2"),
    (["trace", "T", "--duration", "5s"], "--duration is for new traces"),
    (["trace", "T", "--out", "T"], "is also an input"),
    (["trace", "T", "--from", "5s", "--to", "5s"], "--from has to be before --to"),
    (["trace", "--from-log", "T"], "no requests found"),
]


@pytest.mark.parametrize(("arguments", "why"), REFUSED, ids=lambda value: " ".join(value) if value else "")
def test_what_cannot_work(
    arguments: list[str], why: str, trace: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    capfd.readouterr()
    code = main([trace if argument == "T" else argument for argument in arguments])
    output, errors = capfd.readouterr()
    lines = [line for line in errors.splitlines() if "left out" not in line]
    assert (code, output) == (2, "")
    assert len(lines) == 1
    assert lines[0].startswith("loadgen: error: ")
    assert why in lines[0]
    assert tmp_path.exists()


@pytest.mark.parametrize("command", ["trace", "run", "replay", "report"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"usage: loadgen {command}" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "replay", "report"])
def test_help_explains_latencies(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "latencies are of accepted requests" in text
    assert command == "report" or "to the end of its response; then it has failed" in text
