"""The command on a log with a violated guarantee, and again on the Parquet lines that the first analysis exported."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.analytics.logs.truth import Log
from tests.support.nodes import run_command

if TYPE_CHECKING:
    from pathlib import Path

SPEC = "</a>.available = always\n</b>.server_resource > 40%\n</c>.num_requests < 50\n"
OTHER = "</a>.server_resource < 1%\n"  # that the log itself tells of: --spec takes its place


def _analysed(logs: Path, spec: Path, out: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    ran = run_command("analyze", str(logs), "--spec", str(spec), "--out", str(out), *options, timeout_s=300)
    return ran.returncode, json.loads((out / "report.json").read_text()), ran.stdout + ran.stderr


def test_a_violation_is_exit_code_1_also_on_exported_lines(tmp_path: Path) -> None:
    log = Log(OTHER)
    log.run(20, {"/a": 20, "/b": 60, "default": 60}, {"/a": 20, "/b": 40, "default": 40})
    denied = log.request(13.5, "/a", "denied")
    logs, spec = log.write(tmp_path / "a.log"), tmp_path / "s.webqos"
    spec.write_text(SPEC)
    code, first, said = _analysed(logs, spec, tmp_path / "first", "--keep-lines")
    assert code == 1, said
    assert {one["rule"]: one["outcome"] for one in first["promises"] if one["line"]} == {
        "</a>.available = always": "violated",
        "</b>.server_resource > 40%": "held",
        "</c>.num_requests < 50": "not tested",
    }
    assert [(one["policy"], one["text"]) for one in first["policies"]] == [("*", SPEC)]
    broken = next(one for one in first["promises"] if one["outcome"] == "violated")
    assert (broken["rids"], broken["windows"]) == ([denied["rid"]], {"held": 1, "violated": 1, "not tested": 0})
    assert re.search(r"qosweb: judging \(\d+ s\)", said), "progress"
    again, second, _ = _analysed(tmp_path / "first" / "lines.parquet", spec, tmp_path / "second")
    assert again == 1
    for what in ("promises", "windows", "cluster", "table", "top", "needs", "lines", "begin", "end", "outcome"):
        assert second[what] == first[what], what
