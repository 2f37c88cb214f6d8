"""``./dev bench contention`` works: three processes decide together, and with a plain queue for comparison."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.bench import contention

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_three_nodes_in_contention(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "contention.json"
    assert contention.main(["--per-s", "200", "--seconds", "0.5", "--rounds", "1", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert set(found["figures"][0]) == set(contention.MODES)
    assert all(one["per_s"] > 0 and one["cpu_us"] > 0 for one in found["figures"][0].values())
    assert found["figures"][0]["cluster"]["entries_per_s"] > 0
    assert "of one core (goal: 1)" in capsys.readouterr().out
