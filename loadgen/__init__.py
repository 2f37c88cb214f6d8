"""Load generator for web servers: open loop, with latency measured from the time a request was due.

From Python: make or read a trace, send it, and read the summary.

    from loadgen import LoadOptions, make_trace, parse_assertion, run_load

    trace = make_trace(200, 10.0, mix=["A=30:/paid/", "B=70:/free/"], flash=["A=x10@4s+2s"])
    summary = run_load(trace, ["http://127.0.0.1:8080"], LoadOptions(timeout_s=5.0), results="results.jsonl")
    print(summary.classes["A"].served, summary.all.latency_ms.percentiles["p99"])
    print(parse_assertion("A.served>=99.9%").judge(summary).holds)

Names are imported on first use, because the worker processes of a run need only a few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadgen.load import run_load
    from loadgen.options import LoadOptions
    from loadgen.results.assertions import parse_assertion
    from loadgen.results.comparison import compare
    from loadgen.results.results import Result
    from loadgen.results.results_file import RunFile, read_summary
    from loadgen.results.summary import RunSummary
    from loadgen.trace.files import read_trace
    from loadgen.trace.making import make_trace
    from loadgen.trace.request import TraceRequest
    from qosweb.errors import UsageError

__all__ = [
    "LoadOptions",
    "Result",
    "RunFile",
    "RunSummary",
    "TraceRequest",
    "UsageError",
    "compare",
    "make_trace",
    "parse_assertion",
    "read_summary",
    "read_trace",
    "run_load",
]

_NAMES_BY_MODULE = {
    "loadgen.results.assertions": ("parse_assertion",),
    "loadgen.results.comparison": ("compare",),
    "qosweb.errors": ("UsageError",),
    "loadgen.load": ("run_load",),
    "loadgen.options": ("LoadOptions",),
    "loadgen.results.results": ("Result",),
    "loadgen.results.results_file": ("RunFile", "read_summary"),
    "loadgen.results.summary": ("RunSummary",),
    "loadgen.trace.files": ("read_trace",),
    "loadgen.trace.making": ("make_trace",),
    "loadgen.trace.request": ("TraceRequest",),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'loadgen' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
