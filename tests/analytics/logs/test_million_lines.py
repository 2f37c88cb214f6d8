"""A million lines with one fault: the command finds it, names it, and reports nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.analytics.logs.truth import BEGIN_S, hash_of
from tests.support.nodes import run_command

if TYPE_CHECKING:
    from pathlib import Path

LINES = 1_000_000
PER_S = 4000
CUT = 100_000  # lines written at once
WRONG = 654_321
RULE = "</a>.available = always"
SPEC = f"{RULE}\n</b>.available = always\n"


def _write(path: Path) -> None:
    policy = hash_of(SPEC)
    event = {"event": "policy", "ts": BEGIN_S, "node": "n1", "index": 1, "policy": policy, "text": SPEC}
    kinds = [
        f'"rid":"q-%d","node":"n1","view":"1:a","policy":"{policy}","client":"10.0.0.1","method":"GET","host":"h",'
        f'"path":"{name}/x.html","class":"{name}","decision":"{decision}","status":{status},"bytes":{size},'
        '"queue_ms":0.0,"service_ms":1.5,"total_ms":1.5}\n'
        for name, decision, status, size in (
            ("/a", "served", 200, 900), ("/b", "served", 200, 700), ("/a", "denied", 503, 60),
        )
    ]  # fmt: skip
    with path.open("w") as out:
        out.write(json.dumps(event) + "\n")
        for begin in range(0, LINES, CUT):
            out.writelines(
                f'{{"ts":{BEGIN_S + at / PER_S:.5f},' + kinds[2 if at == WRONG else at % 2] % at
                for at in range(begin, begin + CUT)
            )


def test_one_request_denied_in_a_million(tmp_path: Path) -> None:
    _write(tmp_path / "a.log")
    ran = run_command("analyze", str(tmp_path / "a.log"), "--json", timeout_s=600)
    assert ran.returncode == 1, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["lines"], report["bad_lines"]) == (LINES, [])
    (wrong,) = (one for one in report["windows"] if one["outcome"] == "violated")
    assert (wrong["rule"], wrong["rids"]) == (RULE, [f"q-{WRONG}"])
    assert wrong["window"] == BEGIN_S + WRONG // PER_S // 10 * 10
    assert wrong["got"] == wrong["demand"] - 1
    (promise,) = (one for one in report["promises"] if one["outcome"] == "violated")
    assert (promise["rule"], promise["rids"]) == (RULE, [f"q-{WRONG}"])
    assert promise["windows"] == {"held": LINES // PER_S // 10 - 1, "violated": 1, "not tested": 0}
    assert {one["outcome"] for one in report["cluster"]} <= {"held", "not tested"}
