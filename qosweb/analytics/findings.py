"""Turns the sums over the log lines into verdicts, tables and notes.

The order: events (members, policies), then verdicts, which the driver computes from the sums by slot, a bounded number
of rows at a time (``ROWS_AT_ONCE``), then the tables. So the memory of the driver is bounded by the size of the report,
not by the length of the log.
Neighbours: ``analysis`` supplies the sums of complete logs, ``follow.stream`` those of growing logs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.analytics.judge import capacity_needs, flash_crowds, view_chain
from qosweb.analytics.judge.situations import AccessTimes, Situations, situations
from qosweb.analytics.judge.verdicts import (
    WindowJudge,
    judge_run,
    outcome_of,
    untested_rules,
    verdicts_needing_evidence,
)
from qosweb.analytics.read import line_queries, policies, slot_sums, tables, window_parts
from qosweb.analytics.read.log_lines import EVENTS_MAX, without_copies
from qosweb.analytics.read.pools import Pools
from qosweb.analytics.read.rows import NOT_TESTED, VIOLATED
from qosweb.analytics.read.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import AnalysisLimits, AnalysisRequest, LogEvent, Part, Verdict

ROWS_AT_ONCE = 50_000  # sums by slot on the driver; one window may have more
REASONS_MAX = 3
CLASSLESS = "-"  # the class of lines in the combined format


@dataclass
class Findings:
    """The complete result of an analysis; ``json_report`` writes it."""

    limits: AnalysisLimits
    outcome: str
    run: list[Verdict]
    windows: list[Verdict]
    cluster: list[Verdict]
    samples: Mapping[Verdict, Sequence[str]]
    table: list[tables.OutcomeCounts]
    crowds: list[flash_crowds.DetectedCrowd]
    capacity: list[capacity_needs.WindowCapacity]
    needs: list[capacity_needs.ClassNeed]
    bad: list[tuple[str, str, int]]
    events: list[LogEvent]
    policies: list[LoggedPolicy]
    notes: list[str]
    lines: int
    begin_s: float
    end_s: float
    top: list[tables.Top] = field(default_factory=list)  # set last: no verdict depends on it


@dataclass(frozen=True)
class LogAggregates:
    """The sums over the lines, and functions for queries that may still be needed."""

    events: list[LogEvent]
    of_slots: DataFrame  # see ``LineScan.slots``
    took: Callable[[], tables.Times]
    busiest: Callable[[], list[tables.Top]]
    twice: Callable[[], line_queries.DuplicateEnds]
    samples: Callable[[Sequence[Verdict]], Mapping[Verdict, Sequence[str]]]
    accesses: Callable[[LoggedPolicy], Mapping[int, AccessTimes] | None]  # None: too many pages


def policies_of(request: AnalysisRequest, events: Sequence[LogEvent]) -> tuple[dict[str, LoggedPolicy], list[str]]:
    """The policies by hash, and messages about those that cannot be compiled."""
    return ({policies.EVERY: request.spec}, []) if request.spec else policies.from_events(events)


def conclude(
    gathered: LogAggregates,
    seen: slot_sums.Survey,
    request: AnalysisRequest,
    show_step: Callable[[str], None] = lambda _: None,
    on_findings: Callable[[Findings], None] = lambda _: None,
) -> Findings:
    """Judges the sums. ``show_step`` shows the step; ``on_findings`` gets the findings before ``top`` is known."""
    limits, events = request.limits, without_copies(gathered.events[:EVENTS_MAX])
    known, notes = policies_of(request, events)
    if is_cut := len(gathered.events) > EVENTS_MAX:
        notes.append(f"the logs have more than {EVENTS_MAX} event lines: the others are ignored")
    responses_ms = policies.response_limits(known)
    timeline = Timeline(events, seen.nodes)
    show_step("judging")
    notes += _strangers(seen, known)
    when = _situations(gathered, known, timeline, limits, seen, notes)
    pools = Pools(events)
    bench = WindowJudge(known, when, timeline, limits, responses_ms, _sizes(seen), pools)
    in_parts = _parts(gathered, when, limits, responses_ms, seen, pools)
    in_windows = [verdict for part in in_parts for verdict in bench.judge(part)]
    of_run = list(judge_run(in_windows, limits))
    of_run += list(untested_rules(known, when, of_run))
    show_step("checking for requests that ended twice")
    cluster = [*view_chain.judge_cluster(events, is_all=not is_cut), view_chain.judge_once(*gathered.twice())]
    outcome = run_outcome(of_run, cluster)
    if outcome == NOT_TESTED:
        notes.append(f"no guarantee of a policy was tested: {_why_untested(of_run, known, seen)}")
    broken = verdicts_needing_evidence(of_run, in_windows)
    if broken:
        show_step("finding lines that show violations")
    shown = gathered.samples(broken)
    show_step("building the tables")
    table = _table(seen.outcomes, gathered.took())
    findings = Findings(
        limits=limits,
        outcome=outcome,
        run=of_run,
        windows=in_windows,
        cluster=cluster,
        samples=shown,
        table=table,
        crowds=flash_crowds.find_crowds(table, limits.window_s),
        capacity=capacity_needs.capacity(table, timeline, limits.window_s),
        needs=capacity_needs.needs(table, limits.window_s),
        bad=seen.bad,
        events=events,
        policies=list(known.values()),
        notes=notes,
        lines=seen.requests + sum(count for _, _, count in seen.bad),
        begin_s=float(seen.first_slot * limits.slot_s),
        end_s=float((seen.last_slot + 1) * limits.slot_s),
    )
    on_findings(findings)
    show_step("finding the busiest pages and clients")
    findings.top = gathered.busiest()
    return findings


def run_outcome(of_run: Sequence[Verdict], cluster: Sequence[Verdict]) -> str:
    """A violated cluster guarantee makes the run violated, but only guarantees of policies make it held."""
    return VIOLATED if outcome_of(cluster) == VIOLATED else outcome_of(of_run)


def _why_untested(of_run: Sequence[Verdict], known: Mapping[str, LoggedPolicy], seen: slot_sums.Survey) -> str:
    if not known and any(name for name, _ in seen.classes):
        return "the policies of the requests are in none of these logs; add the earlier logs, or give --spec"
    if not known:
        return "the logs contain no valid policy, and --spec is not given"
    reasons = sorted({verdict.reason for verdict in of_run if verdict.reason})
    return "; ".join(reasons[:REASONS_MAX]) or "no request came under a policy with a guarantee"


def outside(events: Sequence[LogEvent]) -> set[str]:
    """Views that no node calls primary; includes the empty id, if nodes log that they are in no view."""
    views = [event for event in events if event.kind == "view"]
    return {event.view for event in views} - {event.view for event in views if event.primary}


def _situations(
    gathered: LogAggregates,
    known: Mapping[str, LoggedPolicy],
    timeline: Timeline,
    limits: AnalysisLimits,
    seen: slot_sums.Survey,
    notes: list[str],
) -> dict[str, Situations]:
    first, last = seen.first_slot + -(-limits.skip_s // limits.slot_s), seen.last_slot
    when = {}
    for name, policy in known.items():
        accesses: Mapping[int, AccessTimes] | None = {}
        if "accessed" in policy.subjects:
            accesses = gathered.accesses(policy)
        when[name] = situations(policy, timeline, accesses, first, last, limits.slot_s)
        if not when[name].bindings:
            notes.append(
                f"policy {name} is not judged: its rules change over time, and the log is too long to evaluate them"
            )
        if accesses is None:
            notes.append("conditions on accesses: too many pages to track, so shares and priorities are not judged")
        elif when[name].unsure:
            notes.append("conditions on the load: the load is not in the log, so shares and priorities are not judged")
    return when if first <= last else {}


def _parts(
    gathered: LogAggregates,
    when: Mapping[str, Situations],
    limits: AnalysisLimits,
    responses_ms: Sequence[int],
    seen: slot_sums.Survey,
    pools: Pools,
) -> Iterator[Part]:
    """Parts of windows in order of time. The rows of one range of windows are freed before the next range is read."""
    if not when:
        return
    views = sorted(outside(gathered.events))
    for slots in _stretches(seen, limits, 1 + len(seen.nodes) if views else 1):
        rows = slot_sums.by_slot(gathered.of_slots, slots, views, responses_ms)
        yield from window_parts.parts(window_parts.slot_rows(rows), when, limits, pools)


def _stretches(seen: slot_sums.Survey, limits: AnalysisLimits, scopes: int) -> Iterator[range]:
    """Ranges of slots of consecutive windows with at most ``ROWS_AT_ONCE`` sums.

    Windows without lines are in no range, or cost nothing.
    """
    in_window = limits.window_s // limits.slot_s
    policies_of = Counter(name for _, name in seen.classes)
    rows_in: Counter[int] = Counter()
    for row in seen.outcomes:
        if row.window_s is not None and row.name is not None:
            rows_in[row.window_s] += in_window * scopes * policies_of[row.name]
    first, count, end = 0, 0, 0
    for window_s, rows in sorted(rows_in.items()):
        if count and count + rows > ROWS_AT_ONCE:
            yield range(first, end)
            count = 0
        if not count:
            first = window_s // limits.slot_s
        count += rows
        end = window_s // limits.slot_s + in_window
    if count:
        yield range(first, end)


def _sizes(seen: slot_sums.Survey) -> dict[str, float]:
    """Mean response size of each class over the whole run."""
    of_classes = [row for row in seen.outcomes if row.name is not None and row.window_s is None and row.node is None]
    return {row.name: row.sent_bytes / done for row in of_classes if row.name and (done := row.served + row.failed)}


def _strangers(seen: slot_sums.Survey, known: Mapping[str, LoggedPolicy]) -> list[str]:
    """Notes about requests whose policy or class is unknown."""
    unknown: dict[str, int] = {}
    for (name, class_name), count in seen.classes.items():
        policy = known.get(name)
        if class_name == CLASSLESS:
            what = "in the combined format, which has no class"
        elif policy is None:
            what = f"under policy '{name}', whose text is in no event line" if name else "under no policy"
        elif class_name not in policy.numbers:
            what = f"in class '{class_name}', which the specification does not define"
        else:
            continue
        unknown[what] = unknown.get(what, 0) + count
    return [f"{count} requests {what}: not judged" for what, count in unknown.items()]


def _table(outcomes: Sequence[tables.OutcomeCounts], took: tables.Times) -> list[tables.OutcomeCounts]:
    made = []
    for row in outcomes:
        wait, service = took.get((row.window_s, row.node, row.name), ((), ()))
        made.append(row._replace(wait_ms=wait, service_ms=service))
    return sorted(made, key=lambda row: (row.window_s or -1, row.node or "", row.name or ""))
