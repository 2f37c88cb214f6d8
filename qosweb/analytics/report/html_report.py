"""Renders the findings as one self-contained HTML page: no scripts, fonts or images from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED
from qosweb.analytics.report.charts import pictures
from qosweb.analytics.report.json_report import windows_of
from qosweb.analytics.report.terminal import clock, policy_texts, pool_text

if TYPE_CHECKING:
    from qosweb.analytics.findings import Findings

WINDOWS_MAX = 500


def page(findings: Findings, *, refresh_s: int | None = None) -> str:
    """Renders the page. With ``refresh_s`` a browser reloads it at that interval, for a growing log."""
    environment = Environment(
        loader=PackageLoader("qosweb.analytics.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["clock"] = clock
    environment.filters["pool"] = pool_text
    order = {VIOLATED: 0, HELD: 1, NOT_TESTED: 2}
    promises = []
    for verdict in sorted(findings.run, key=lambda one: (order[one.outcome], one.line)):
        tested = [one for one in windows_of(verdict, findings) if one.outcome != NOT_TESTED]
        tested.sort(key=lambda one: (one.outcome != VIOLATED, one not in findings.samples))
        promises.append((verdict, tested))
    whole = [row for row in findings.table if row.window_s is None]
    return environment.get_template("report.html").render(
        found=findings,
        refresh_s=refresh_s,
        promises=promises,
        under=policy_texts(findings),
        windows_max=WINDOWS_MAX,
        pictures=pictures(findings),
        classes=[(row.name or "all", row) for row in whole if row.node is None],
        nodes=[(row.node, row) for row in whole if row.node is not None and row.name is None],
    )
