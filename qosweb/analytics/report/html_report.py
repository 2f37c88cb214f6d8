"""The findings as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED
from qosweb.analytics.report.charts import pictures
from qosweb.analytics.report.terminal import clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.rows import Verdict

WINDOWS_MAX = 500
_MARK = {HELD: "held", VIOLATED: "violated", NOT_TESTED: "untested"}
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; margin-bottom: .2em; } h2 { font-size: 1.15em; margin: 1.8em 0 .5em; }
p.sub { color: #666; margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; border-bottom: 2px solid #ccc; padding: .3em .6em .3em 0; white-space: nowrap; }
td { border-bottom: 1px solid #eee; padding: .3em .6em .3em 0; vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.t { white-space: nowrap; }
code, pre { font: 12.5px/1.4 ui-monospace, monospace; }
pre { background: #f6f6f4; padding: .8em; overflow-x: auto; }
.tag { display: inline-block; padding: 0 .5em; border-radius: 3px; white-space: nowrap; font-size: 12px; }
.held { background: #e2f0e2; color: #2d6a2d; } .violated { background: #f6dcd6; color: #9a2c14; font-weight: 600; }
.untested { background: #eee; color: #777; }
.big { font-size: 1em; padding: .15em .8em; }
svg { width: 100%; height: auto; }
details { margin: .5em 0; } summary { cursor: pointer; }
"""


def page(findings: Findings, *, refresh_s: int | None = None) -> str:
    """With ``refresh_s`` a browser loads it again and again: it is of a log that grows."""
    again = f"<meta http-equiv=refresh content={refresh_s}>" if refresh_s else ""
    body = [
        f"<h1>Were the promises kept? {_tag(findings.outcome, big=True)}</h1>",
        _subtitle(findings),
        _notes(findings),
        "<h2>Promises of the policy</h2>",
        _promises(findings),
        "<h2>Promises of the cluster</h2>",
        _table(("", "promise", ""), [(_tag(v.outcome), escape(v.rule), escape(v.reason)) for v in findings.cluster]),
        *(f"<h2>{escape(title)}</h2>{svg}" for title, svg in pictures(findings)),
        "<h2>Classes</h2>",
        _classes(findings),
        "<h2>Nodes</h2>",
        _nodes(findings),
        _crowds(findings),
        "<h2>Capacity that would have served everything</h2>",
        _table(
            ("class", "#served, bytes/s", "#asked for on average", "#in the busiest window"),
            [
                (escape(n.name), f"{n.served_bps:,.0f}", f"{n.mean_bps:,.0f}", f"{n.peak_bps:,.0f}")
                for n in findings.needs
            ],
        ),
        "<h2>Most asked for</h2>",
        _table(
            ("", "", "#requests", "#served", "#MB"),
            [
                (
                    row.what,
                    escape(row.name),
                    f"{row.requests:,}",
                    f"{row.served:,}",
                    f"{row.sent_bytes / (1 << 20):,.1f}",
                )
                for row in findings.top
            ],
        ),
        "<h2>Policies</h2>",
        *(
            f"<details><summary><code>{escape(p.name)}</code></summary><pre>{escape(p.text)}</pre></details>"
            for p in findings.policies
        ),
    ]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"{again}"
        f"<title>qosweb: {escape(findings.outcome)}</title><style>{_STYLE}</style></head><body>"
        + "\n".join(part for part in body if part)
        + "</body></html>\n"
    )


def _subtitle(findings: Findings) -> str:
    limits = findings.limits
    when = f"{clock(findings.begin_s)} to {clock(findings.end_s)} UTC"
    how = f"windows of {limits.window_s} s, tolerance {100 * limits.tolerance:g} points"
    return f"<p class=sub>{findings.lines:,} lines, {when}; {how}</p>"


def _tag(outcome: str, *, big: bool = False) -> str:
    return f"<span class='tag {_MARK[outcome]}{' big' if big else ''}'>{outcome}</span>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Heads that begin with # are of numbers; cells are HTML."""
    numeric = [head.startswith("#") for head in heads]
    shown = "".join(
        f"<th class=n>{escape(head[1:])}</th>" if is_number else f"<th>{escape(head)}</th>"
        for head, is_number in zip(heads, numeric, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td class=n>{cell}</td>" if is_number else f"<td>{cell}</td>"
            for cell, is_number in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    return f"<table><thead><tr>{shown}</tr></thead><tbody>{''.join(lines)}</tbody></table>" if lines else "<p>None.</p>"


def _notes(findings: Findings) -> str:
    notes = [escape(note) for note in findings.notes]
    notes += [
        f"{count:,} bad lines in <code>{escape(file)}</code>: {escape(cause)}" for file, cause, count in findings.bad
    ]
    return f"<ul>{''.join(f'<li>{note}</li>' for note in notes)}</ul>" if notes else ""


def _promises(findings: Findings) -> str:
    order = {VIOLATED: 0, HELD: 1, NOT_TESTED: 2}
    rows = []
    for verdict in sorted(findings.run, key=lambda one: (order[one.outcome], one.line)):
        of_rule = [
            one
            for one in findings.windows
            if (one.policy, one.kind, one.rule, one.line) == (verdict.policy, verdict.kind, verdict.rule, verdict.line)
        ]
        rows.append(
            (
                _tag(verdict.outcome),
                f"<code>{escape(verdict.rule)}</code>",
                escape(verdict.kind),
                escape(verdict.reason) + _windows(of_rule, findings),
            )
        )
    return _table(("", "promise", "kind", ""), rows)


def _windows(verdicts: list[Verdict], findings: Findings) -> str:
    """The windows of one promise, those that were violated first, then those of which lines are shown."""
    tested = (v for v in verdicts if v.outcome != NOT_TESTED)
    told = sorted(tested, key=lambda v: (v.outcome != VIOLATED, v not in findings.samples))
    if not told:
        return ""
    rows = [
        (
            _tag(v.outcome),
            clock(v.key.window_s).split()[1] + (f" {escape(v.key.scope)}" if v.key.scope else "") if v.key else "",
            escape(v.reason),
            " ".join(f"<code>{escape(rid)}</code>" for rid in findings.samples.get(v, ())),
        )
        for v in told[:WINDOWS_MAX]
    ]
    more = f"<p>and {len(told) - WINDOWS_MAX} more</p>" if len(told) > WINDOWS_MAX else ""
    return f"<details><summary>windows</summary>{_table(('', 'from', '', 'shown by'), rows)}{more}</details>"


def _classes(findings: Findings) -> str:
    rows = [row for row in findings.table if row.window_s is None and row.node is None]
    return _outcomes("class", [(row.name or "all", row) for row in rows])


def _nodes(findings: Findings) -> str:
    rows = [row for row in findings.table if row.window_s is None and row.node is not None and row.name is None]
    return _outcomes("node", [(row.node or "", row) for row in rows])


def _outcomes(what: str, rows: Sequence[tuple[str, object]]) -> str:
    from qosweb.analytics.read.tables import OutcomeCounts

    heads = (
        what, "#asked", "#served", "#denied", "#expired", "#failed", "#gave up", "#redirected", "#MB", "#wait p50",
        "#p99 ms",
        "#service p50", "#p99 ms",
    )  # fmt: skip
    made = []
    for name, row in rows:
        assert isinstance(row, OutcomeCounts)
        wait = [f"{row.wait_ms[at]:.1f}" if row.wait_ms else "" for at in (0, 2)]
        service = [f"{row.service_ms[at]:.1f}" if row.service_ms else "" for at in (0, 2)]
        counts = (row.asked, row.served, row.denied, row.expired, row.failed, row.gave_up, row.redirected)
        made.append((escape(name), *(f"{n:,}" for n in counts), f"{row.sent_bytes / (1 << 20):,.1f}", *wait, *service))
    return _table(heads, made)


def _crowds(findings: Findings) -> str:
    if not findings.crowds:
        return ""
    rows = [
        (
            escape(crowd.name), clock(crowd.begin_s), clock(crowd.end_s), f"{crowd.factor:.1f}",
            ", ".join(f"{escape(name)} ({100 * a:.1f}% to {100 * b:.1f}%)" for name, a, b in crowd.paid) or "nobody",
        )
        for crowd in findings.crowds
    ]  # fmt: skip
    return "<h2>Flash crowds</h2>" + _table(("class", "from", "to", "#times", "who paid (part served)"), rows)
