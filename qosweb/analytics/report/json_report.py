"""Writes ``report.json``, whose schema is in ``docs/reference/analysis.md``, and ``report.html``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED
from qosweb.analytics.read.tables import PERCENTILES
from qosweb.errors import UsageError
from qosweb.version import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.rows import Verdict
    from qosweb.analytics.read.tables import OutcomeCounts

SCHEMA = 1


def write_report(findings: Findings, out: Path, *, refresh_s: int | None = None) -> None:
    """Writes both files, each atomically: a concurrent reader gets the old or the new one."""
    from qosweb.analytics.report.html_report import page  # imports matplotlib and jinja2

    texts = {
        "report.json": json.dumps(as_json(findings), indent=1) + "\n",
        "report.html": page(findings, refresh_s=refresh_s),
    }
    for name, text in texts.items():
        new = out / f".{name}.new"
        try:
            new.write_text(text, "utf-8")
            new.replace(out / name)
        except OSError as error:
            raise UsageError(f"--out: {out / name}: {error.strerror}") from None


def as_json(findings: Findings) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "outcome": findings.outcome,
        "begin": findings.begin_s,
        "end": findings.end_s,
        "lines": findings.lines,
        "bad_lines": [{"file": file, "cause": cause, "lines": count} for file, cause, count in findings.bad],
        "notes": findings.notes,
        "limits": findings.limits._asdict(),
        "policies": [{"policy": policy.name, "text": policy.text} for policy in findings.policies],
        "promises": [verdict_row(verdict, findings) | _windows(verdict, findings) for verdict in findings.run],
        "cluster": [
            {"rule": verdict.rule, "outcome": verdict.outcome, "reason": verdict.reason} for verdict in findings.cluster
        ],
        "windows": [verdict_row(verdict, findings) for verdict in findings.windows],
        "table": [outcome_row(row) for row in findings.table],
        "top": [row._asdict() for row in findings.top],
        "crowds": [
            {
                "class": crowd.name, "begin": crowd.begin_s, "end": crowd.end_s, "factor": round(crowd.factor, 2),
                "paid": [
                    {"class": name, "served_otherwise": outside, "served_meanwhile": meanwhile}
                    for name, outside, meanwhile in crowd.paid
                ],
            }
            for crowd in findings.crowds
        ],
        "capacity": [row._asdict() for row in findings.capacity],
        "needs": [row._asdict() for row in findings.needs],
    }  # fmt: skip


def outcome_row(row: OutcomeCounts) -> dict[str, object]:
    made: dict[str, object] = {
        "window": row.window_s, "node": row.node, "class": row.name, "served": row.served, "denied": row.denied,
        "expired": row.expired, "failed": row.failed, "gave_up": row.gave_up, "refused": row.refused,
        "redirected": row.redirected,
        "forwarded": row.forwarded, "blocked": row.blocked, "bytes": row.sent_bytes,
    }  # fmt: skip
    for what, found in (("wait_ms", row.wait_ms), ("service_ms", row.service_ms)):
        for part, value in zip(PERCENTILES, found or (None,) * len(PERCENTILES), strict=False):
            made[f"{what}_p{100 * part:g}"] = value
    return made


def verdict_row(verdict: Verdict, findings: Findings) -> dict[str, object]:
    key = verdict.key
    return {
        "kind": verdict.kind,
        "rule": verdict.rule,
        "line": verdict.line or None,
        "policy": verdict.policy,
        "window": None if key is None else key.window_s,
        "scope": None if key is None else key.scope,
        "pool": verdict.pool or None,
        "cause": verdict.cause or None,
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "unit": verdict.unit or None,
        "demand": verdict.demand,
        "promise": verdict.promise,
        "got": verdict.got,
        "whole": verdict.whole,
        "rids": list(findings.samples.get(verdict, ())),
    }


def windows_of(verdict: Verdict, findings: Findings) -> list[Verdict]:
    """The verdicts in single windows on the rule of a verdict on the run."""
    rule = (verdict.policy, verdict.kind, verdict.rule, verdict.line, verdict.pool)
    return [
        window
        for window in findings.windows
        if (window.policy, window.kind, window.rule, window.line, window.pool) == rule
    ]


def _windows(verdict: Verdict, findings: Findings) -> dict[str, object]:
    """The number of windows by outcome, and request ids that show violations in some of them."""
    of_rule = windows_of(verdict, findings)
    counts = {outcome: sum(one.outcome == outcome for one in of_rule) for outcome in (HELD, VIOLATED, NOT_TESTED)}
    rids = [rid for one in of_rule for rid in findings.samples.get(one, ())]
    return {"windows": counts, "rids": rids[:20]}
