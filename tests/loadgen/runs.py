"""Runs of the load generator within a test: a trace in, summary and results out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from loadgen.cli import main
from loadgen.trace.files import write_trace, writing
from loadgen.trace.request import TraceRequest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Json = dict[str, Any]


def evenly(count: int, rate_per_s: float, url: str = "/", class_name: str = "A") -> list[TraceRequest]:
    return [TraceRequest(round(at / rate_per_s, 6), url, "GET", class_name) for at in range(count)]


class Ran:
    """A run that ended: its exit code, summary and results."""

    def __init__(self, code: int, folder: Path) -> None:
        self.code = code
        self.results_file = folder / "results.jsonl"
        self.summary: Json = json.loads((folder / "summary.json").read_text())
        first, *lines = [json.loads(line) for line in self.results_file.read_text().splitlines()]
        self.facts: Json = first["run"]
        self.results: list[Json] = sorted(lines, key=lambda line: int(line["n"]))

    @property
    def outcomes(self) -> dict[str, int]:
        return {name: count for name, count in self.summary["all"]["outcomes"].items() if count}

    @property
    def causes(self) -> dict[str, int]:
        causes: dict[str, int] = self.summary["all"]["failed_by_cause"]
        return causes

    def p(self, percent: str) -> float:
        return float(self.summary["all"]["latency_ms"]["percentiles"][f"p{percent}"])


def run(folder: Path, trace: Iterable[TraceRequest], *options: str) -> Ran:
    """``loadgen run`` of a trace. Whatever happened, each request must have exactly one outcome."""
    folder.mkdir(exist_ok=True)
    name = str(folder / "trace.jsonl")
    requests = list(trace)
    with writing(name) as file:
        write_trace(file, requests)
    code = main(["run", name, *_outputs(folder), *options])
    ran = Ran(code, folder)
    if "-c" not in options and not ran.summary["interrupted"]:
        assert [result["n"] for result in ran.results] == list(range(len(requests)))
        assert sum(ran.outcomes.values()) == len(requests) == ran.summary["all"]["requests"]
    return ran


def replay(folder: Path, results: Path, *options: str) -> Ran:
    folder.mkdir(exist_ok=True)
    return Ran(main(["replay", str(results), *_outputs(folder), *options]), folder)


def _outputs(folder: Path) -> list[str]:
    return ["--quiet", "--out", str(folder / "results.jsonl"), "--summary", str(folder / "summary.json")]
