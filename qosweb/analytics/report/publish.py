"""Writes the report for people and the one for programs into a folder, each at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from qosweb.analytics.report.html_report import page
from qosweb.analytics.report.json_report import as_json
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from qosweb.analytics.findings import Findings


def write_report(findings: Findings, out: Path, *, refresh_s: int | None = None) -> None:
    """Whoever reads them meanwhile has the old ones or the new ones."""
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
