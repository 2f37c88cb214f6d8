"""Output of a command: the summary as text or JSON, files, verdicts of assertions, and the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loadgen.results.summary import render
from qosweb.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from loadgen.results.assertions import Assertion, AssertionResult
    from loadgen.results.summary import RunSummary


def write_outputs(arguments: argparse.Namespace, summary: RunSummary, assertions: Sequence[Assertion]) -> int:
    """Write all outputs. Returns exit code 0, or 1 if an assertion does not hold or a worker process died."""
    verdicts = [assertion.judge(summary) for assertion in assertions]
    document = {
        **msgspec.to_builtins(summary),
        "assertions": [verdict._asdict() for verdict in verdicts],
    }
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
    to = sys.stderr if getattr(arguments, "out", None) == "-" else sys.stdout  # standard output may have the results
    to.write(text if arguments.json else render(summary) + _rendered(verdicts))
    to.flush()
    if arguments.summary:
        write_text(arguments.summary, text)
    return 0 if all(verdict.holds for verdict in verdicts) and not summary.died else 1


def write_text(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None


def _rendered(verdicts: Sequence[AssertionResult]) -> str:
    return "".join(
        f"{'holds:' if verdict.holds else 'FAILS:':<8}{verdict.text}  ({verdict.actual})\n" for verdict in verdicts
    )
