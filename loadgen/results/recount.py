"""A summary made from the results of a run, request by request. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.results.histogram import VALUE_MAX, index_of
from loadgen.results.outcomes import ACCEPTED, DENIED, FAILED
from loadgen.results.summary import RunSummary, summarise
from loadgen.results.tally import RunTally, add_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadgen.results.results import Result, RunFacts


def recount(facts: RunFacts, results: Iterable[Result]) -> RunSummary:
    """What a run did not write down (connections, processor time) is 0."""
    tally = RunTally()
    lasted_s = 0.0
    for result in results:
        _add(tally, facts, result)
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


def _add(tally: RunTally, facts: RunFacts, result: Result) -> None:
    mine = tally.of(result.counted_as)
    add_count(mine.outcomes, result.outcome)
    slot = index_of(min(max(result.latency_us, 0), VALUE_MAX))
    if result.outcome == ACCEPTED:
        mine.latency_us[slot] = mine.latency_us.get(slot, 0) + 1
        mine.latency_max_us = max(mine.latency_max_us, result.latency_us)
        answer_us = result.latency_us - (0 if facts.closed_loop else result.sent_us)
        answer = index_of(min(max(answer_us, 0), VALUE_MAX))
        mine.answer_us[answer] = mine.answer_us.get(answer, 0) + 1
        mine.bytes += result.bytes
    elif result.outcome == DENIED:
        mine.denial_us[slot] = mine.denial_us.get(slot, 0) + 1
        add_count(mine.reasons, result.reason)
    elif result.outcome == FAILED:
        add_count(mine.causes, result.cause)
    if result.answered_as:
        add_count(mine.answered_as, result.answered_as)
    mine.redirects += result.redirects
    mine.redirected += result.redirects > 0
    mine.retries += result.retries
    tally.targets[result.target] = tally.targets.get(result.target, 0) + 1
    late = index_of(min(max(result.late_us, 0), VALUE_MAX))
    tally.late_us[late] = tally.late_us.get(late, 0) + 1
    tally.late_max_us = max(tally.late_max_us, result.late_us)
    if result.read_late_us >= 0:
        read_late = index_of(min(result.read_late_us, VALUE_MAX))
        tally.read_late_us[read_late] = tally.read_late_us.get(read_late, 0) + 1
        tally.read_late_max_us = max(tally.read_late_max_us, result.read_late_us)
