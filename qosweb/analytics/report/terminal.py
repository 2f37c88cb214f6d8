"""Prints the findings to the terminal: a table of classes, the verdicts, and the outcome in the last line."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED
from qosweb.terminal_text import escape_controls

if TYPE_CHECKING:
    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.rows import Verdict

ROWS_MAX = 60
COUNTS = (  # of requests: the head of the column, and the field of the row
    ("asked", "asked"), ("served", "served"), ("denied", "denied"), ("429", "refused"), ("blocked", "blocked"),
    ("expired", "expired"), ("failed", "failed"), ("gave up", "gave_up"), ("redirected", "redirected"),
)  # fmt: skip
RARE = ("429", "blocked")  # columns that are left out if they are empty
CAUSES = {
    "set": "bottleneck: configured limit",
    "server": "bottleneck: server",
    "line": "bottleneck: line",
    "processor": "bottleneck: processor",
}
STYLES = {HELD: "green", VIOLATED: "bold red", NOT_TESTED: "dim"}


def show(findings: Findings) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 140)
    console.print(_classes(findings))
    console.print()
    console.print(_guarantees(findings))
    for name in findings.notes:
        _print(f"note: {name}")
    for file, cause, count in findings.bad[:ROWS_MAX]:
        _print(f"{count} bad lines in {file}: {cause}")
    for crowd in findings.crowds[:ROWS_MAX]:
        paid = ", ".join(name for name, _, _ in crowd.paid) or "none"
        _print(
            f"flash crowd: {crowd.name}, x{crowd.factor:.1f}, {clock(crowd.begin_s)} to {clock(crowd.end_s)}; "
            f"served less: {paid}"
        )
    shown = [verdict for verdict in findings.windows if verdict.outcome == VIOLATED][:5]
    for verdict in shown:
        rids = " ".join(findings.samples.get(verdict, ()))
        of_requests = f"; request ids: {rids}" if rids else ""
        _print(f"violation: {_when(verdict)} {_at(verdict)}{verdict.rule}: {verdict.reason}{of_requests}")
    seconds = findings.end_s - findings.begin_s
    untested = "; no guarantee could be judged" if findings.outcome == NOT_TESTED else ""
    print(
        f"{findings.outcome}: {findings.lines} lines, {seconds:.0f} s, from {clock(findings.begin_s)} UTC{untested}",
        flush=True,
    )


def _print(text: str) -> None:
    print(escape_controls(text))


def clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def policy_texts(findings: Findings) -> dict[str, str]:
    """By policy: which it is, and since when it is in force; empty if there was only one."""
    since: dict[str, str] = {}
    for event in sorted(findings.events, key=lambda one: one.ts):
        if event.kind == "policy":
            since.setdefault(event.policy, f" (since {clock(event.ts).split()[1]})")
    names = {policy.name for policy in findings.policies} | {verdict.policy for verdict in findings.run}
    several = len(findings.policies) > 1
    return {name: f" under {name[:8]}{since.get(name, '')}" for name in names if name and several}


def pool_text(verdict: Verdict) -> str:
    """The pool in which a share was judged, and why it was contended."""
    return f"{verdict.pool} ({CAUSES.get(verdict.cause, verdict.cause)})" if verdict.cause else verdict.pool


def _at(verdict: Verdict) -> str:
    return f"at {pool_text(verdict)}: " if verdict.pool else ""


def _when(verdict: Verdict) -> str:
    return clock(verdict.key.window_s) if verdict.key else ""


def _classes(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class", overflow="fold")
    rows = [row for row in findings.table if row.window_s is None and row.node is None]
    shown = [(head, name) for head, name in COUNTS if head not in RARE or any(getattr(row, name) for row in rows)]
    for column in (*(head for head, _ in shown), "MB", "wait p50", "p99 ms", "service p50", "p99 ms"):
        table.add_column(column, justify="right")
    for row in rows[:ROWS_MAX]:
        wait = [f"{row.wait_ms[at]:.1f}" if row.wait_ms else "" for at in (0, 2)]
        service = [f"{row.service_ms[at]:.1f}" if row.service_ms else "" for at in (0, 2)]
        counts = [f"{getattr(row, name):,}" for _, name in shown]
        table.add_row(
            escape_controls(row.name or "all"), *counts, f"{row.sent_bytes / (1 << 20):,.1f}", *wait, *service
        )
    return table


def _guarantees(findings: Findings) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("guarantee", overflow="fold", ratio=2)
    table.add_column("reason", overflow="fold", ratio=3)
    under = policy_texts(findings)
    order = {VIOLATED: 0, HELD: 1, NOT_TESTED: 2}
    for verdict in sorted([*findings.run, *findings.cluster], key=lambda one: order[one.outcome])[:ROWS_MAX]:
        kind = f" [{verdict.kind}]" if verdict.kind.startswith(("share", "rate")) else ""
        kind += under.get(verdict.policy, "")
        if verdict.pool:
            kind += f" at {pool_text(verdict)}"
        promise, reason = escape_controls(verdict.rule + kind), escape_controls(verdict.reason)
        table.add_row(verdict.outcome, promise, reason, style=STYLES[verdict.outcome])
    return table
