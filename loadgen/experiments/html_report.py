"""Renders all findings as one self-contained HTML page with embedded plots."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from loadgen.experiments.findings import FAIL, PASS, SKIPPED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from loadgen.experiments.series import CompletedExperiment


def page(done: Sequence[CompletedExperiment], about: str) -> str:
    counts = {verdict: sum(one.findings.verdict == verdict for one in done) for verdict in (PASS, FAIL, SKIPPED)}
    title = f"Experiments: {counts[PASS]} passed, {counts[FAIL]} failed"
    title += f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
    environment = Environment(
        loader=PackageLoader("loadgen.experiments"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["base64"] = _base64
    environment.tests["number_text"] = _is_number
    return environment.get_template("experiments.html").render(title=title, about=about, done=done)


def _base64(picture: Path) -> str:
    return b64encode(picture.read_bytes()).decode()


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace(",", "").lstrip("-+").isdigit()
