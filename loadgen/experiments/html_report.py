"""All findings as one HTML page that needs nothing else: the pictures are in it."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING

from loadgen.experiments.findings import FAIL, PASS, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.findings import Table
    from loadgen.experiments.series import CompletedExperiment

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1000px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin-bottom: .2em; } h2 { font-size: 1.25em; margin: 2.2em 0 .2em; }
h3 { font-size: 1em; margin: 1.2em 0 .3em; } p.sub { color: #666; margin-top: 0; }
table { border-collapse: collapse; font-size: 13px; margin: .4em 0; }
th { text-align: left; border-bottom: 2px solid #ccc; padding: .3em 1em .3em 0; }
td { border-bottom: 1px solid #eee; padding: .3em 1em .3em 0; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.tag { display: inline-block; padding: 0 .6em; border-radius: 3px; font-size: 12px; white-space: nowrap; }
.pass { background: #e2f0e2; color: #2d6a2d; } .fail { background: #f6dcd6; color: #9a2c14; font-weight: 600; }
.skipped { background: #eee; color: #777; }
.seen { font-size: 1.05em; } .paper { border-left: 3px solid #d9cfae; padding-left: .8em; color: #5b5330; }
img { max-width: 100%; } nav a { color: inherit; }
"""


def page(done: Sequence[CompletedExperiment], about: str) -> str:
    counts = {verdict: sum(one.findings.verdict == verdict for one in done) for verdict in (PASS, FAIL, SKIPPED)}
    title = f"Experiments: {counts[PASS]} passed, {counts[FAIL]} failed"
    title += f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
    index = "".join(
        f'<tr><td><a href="#{one.experiment.name}">{one.experiment.name}</a></td>'
        f"<td>{escape(one.experiment.title)}</td><td>{escape(one.experiment.source)}</td><td>{_tag(one.findings.verdict)}</td>"
        f'<td class="n">{one.lasted_s:.0f} s</td></tr>'
        for one in done
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1><p class=sub>{escape(about)}</p>"
        "<nav><table><tr><th>experiment<th>what<th>from<th>verdict<th>took</tr>"
        f"{index}</table></nav>{''.join(_section(one) for one in done)}</body></html>\n"
    )


def _section(one: CompletedExperiment) -> str:
    experiment, findings = one.experiment, one.findings
    parts = [
        f'<section id="{experiment.name}"><h2>{escape(experiment.title)} {_tag(findings.verdict)}</h2>',
        f'<p class="sub">{escape(experiment.name)} ({escape(experiment.source)})</p>',
    ]
    if findings.skipped:
        return "".join([*parts, f"<p>Skipped: {escape(findings.skipped)}</p></section>"])
    parts.append(f'<p class="seen">{escape(findings.seen)}</p>')
    if one.picture is not None:
        data = b64encode(one.picture.read_bytes()).decode()
        parts.append(f'<p><img alt="{escape(experiment.title)}" src="data:image/png;base64,{data}"></p>')
    if experiment.printed:
        parts.append(f'<p class="paper">{escape(experiment.printed)}</p>')
    parts += [_table(table) for table in findings.tables]
    parts.append(f"<h3>Criterion</h3><p>{escape(experiment.criterion)}</p><table>")
    parts += [
        f"<tr><td>{_tag(PASS if check.holds else FAIL)}</td><td>{escape(check.text)}</td>"
        f"<td>{escape(check.actual)}</td></tr>"
        for check in findings.checks
    ]
    parts.append("</table>")
    parts += [f'<p class="sub">{escape(note)}</p>' for note in findings.notes]
    return "".join([*parts, "</section>"])


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}" for name in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td{' class=n' if _is_number(cell) else ''}>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h3>{escape(table.title)}</h3><table><tr>{head}</tr>{rows}</table>"


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("-+").isdigit()


def _tag(verdict: str) -> str:
    return f'<span class="tag {verdict}">{verdict}</span>'
