"""Computes the summary of a run from its results file. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.results.summary import RunSummary, summarise
from loadgen.results.tally import RunTally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadgen.results.results import Result, RunFacts


def recount(facts: RunFacts, results: Iterable[Result]) -> RunSummary:
    """Figures that are not in the results (connections, processor time) are 0."""
    tally = RunTally()
    lasted_s = 0.0
    for result in results:
        tally.count(result, facts.closed_loop)
        since_us = result.sent_us if facts.closed_loop else 0
        lasted_s = max(lasted_s, (0.0 if facts.closed_loop else result.t) + (since_us + result.latency_us) / 1e6)
    not_run = 0 if facts.closed_loop else max(0, facts.requests - tally.requests)
    return summarise(
        facts,
        tally,
        lasted_s=max(lasted_s, facts.duration_s) if not not_run else lasted_s,
        not_run=not_run,
        cpu_s=0.0,
        interrupted=not_run > 0,
        died=[],
    )
