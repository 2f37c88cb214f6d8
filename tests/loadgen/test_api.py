"""The load generator as a Python library: what `loadgen` exports, against a real server."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loadgen
from loadgen import (
    LoadOptions,
    RunFile,
    RunSummary,
    TraceRequest,
    UsageError,
    compare,
    make_trace,
    parse_assertion,
    read_summary,
    run_load,
)
from tests.support.nodes import RunningNode
from tests.support.sites import write_site

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "loadgen.md"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("node")
    with RunningNode(write_site(folder / "site"), folder) as node:
        yield node.url


def test_all_that_is_exported_is_there_and_explained() -> None:
    for name in loadgen.__all__:
        assert getattr(loadgen, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'run_lode'"):
        _ = loadgen.run_lode


def test_make_and_send_a_trace(url: str, tmp_path: Path) -> None:
    trace = list(make_trace(100, 1.0, mix=["A=1:/page.html", "B=1:/nothing"], arrivals="constant", seed=7))
    assert trace == list(make_trace("100", 1.0, mix=["A=1:/page.html", "B=1:/nothing"], arrivals="constant", seed=7))
    assert len(trace) == 100
    results = str(tmp_path / "results.jsonl.gz")
    summary = run_load(trace, [url], LoadOptions(headers={"X-Group": "blue"}), results=results)
    assert summary.classes["A"].served == 1.0
    assert summary.classes["B"].failed_by_cause == {"status 404": summary.classes["B"].requests}
    assert parse_assertion("A.served>=100%").judge(summary).holds
    assert not parse_assertion("failed==0").judge(summary).holds
    run = RunFile(results)
    assert run.facts.headers == {"X-Group": "blue"}
    found = sorted(run.results(), key=lambda result: result.n)
    assert [result.url for result in found] == [request.url for request in trace]
    again = read_summary(results)
    assert again.all.outcomes == summary.all.outcomes
    assert set(compare(summary, again)) == {"all", "A", "B"}


def test_the_documented_example(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text("utf-8").partition("## Python API\n\n```python\n")[2].partition("```")[0]
    for long, short in (("http://127.0.0.1:8080", url), ("200, 10.0", "200, 0.5"), ("@4s+2s", "@100ms+100ms")):
        assert long in text
        text = text.replace(long, short)
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[1] == "False"  # there is no such page on this site
    assert (tmp_path / "results.jsonl").exists()


def test_a_trace_in_a_file_and_a_closed_loop(url: str, tmp_path: Path) -> None:
    name = tmp_path / "trace.jsonl"
    name.write_text('{"t":0,"url":"/page.html"}\n{"t":0.01,"url":"/"}\n')
    assert [request.url for request in loadgen.read_trace(str(name))] == ["/page.html", "/"]
    assert run_load(str(name), [url]).all.outcomes["accepted"] == 2
    summary = run_load(str(name), [url], LoadOptions(clients=2, lasting_s=0.3))
    assert summary.run.closed_loop
    assert summary.all.requests == summary.all.outcomes["accepted"] > 2


def test_from_a_thread(url: str) -> None:
    found: list[RunSummary] = []
    thread = threading.Thread(target=lambda: found.append(run_load([TraceRequest(0.0, "/")], [url])))
    thread.start()
    thread.join(60)
    assert found[0].all.served == 1.0


def test_invalid_input_raises_usage_error() -> None:
    here = ["http://127.0.0.1:1"]
    request = [TraceRequest(0.0, "/")]
    with pytest.raises(UsageError, match="has no requests"):
        run_load([], here)
    with pytest.raises(UsageError, match="allow-remote"):
        run_load(request, ["http://192.0.2.1"])
    with pytest.raises(UsageError, match="set by the load generator"):
        run_load(request, here, LoadOptions(headers={"Host": "x"}))
    with pytest.raises(UsageError, match="no class 'Z'"):
        make_trace(5, 1.0, mix=["A=1:/"], flash=["Z=x2@0s+1s"])
    with pytest.raises(UsageError, match="--arrivals 'never'"):
        make_trace(5, 1.0, arrivals="never")
