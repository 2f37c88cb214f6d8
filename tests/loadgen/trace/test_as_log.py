"""Traces as synthetic access logs, with known results."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from loadgen.cli import main
from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from pathlib import Path

MADE = ["trace", "--rate", "200", "--duration", "10s", "--mix", "A=3:/a", "--mix", "B=1:/b/{1..9}.html?x", "--as-log"]


def lines_of(tmp_path: Path, *options: str) -> list[dict[str, object]]:
    out = tmp_path / "access.log"
    assert main([*MADE, *options, "--out", str(out)]) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_each_class_is_served_its_share(tmp_path: Path) -> None:
    spec = tmp_path / "s.webqos"
    spec.write_text("</a>.server_resource > 60% as A\n")
    lines = lines_of(tmp_path, "--capacity", "160KB", "--size", "4KB", "--share", "A=60%", "--log-spec", str(spec))
    events = [line for line in lines if "event" in line]
    assert Counter(line["event"] for line in events) == {"view": 3, "capacity": 3, "policy": 3}
    assert {line["text"] for line in events if line["event"] == "policy"} == {spec.read_text()}
    requests = [line for line in lines if "event" not in line]
    assert len({line["rid"] for line in requests}) == len(requests)
    assert {line["policy"] for line in requests} == {events[-1]["policy"]}
    served = Counter(line["class"] for line in requests if line["decision"] == "served")
    assert served["A"] == pytest.approx(24 * 10, abs=24)  # 24 a second, and what waits at the end
    assert served["B"] == pytest.approx(16 * 10, abs=16)
    assert all(float(str(line["queue_ms"])) <= 500 for line in requests)
    assert {line["path"] for line in requests if line["class"] == "B"} <= {f"/b/{n}.html" for n in range(1, 10)}


def test_the_log_begins_today_and_has_a_specification_of_the_shares(tmp_path: Path) -> None:
    before = datetime.now(UTC).date()
    more = ["--mix", "/c/d=1:/c/d/x", "--mix", "A=1:http://h.example/n/", "--mix", "/z", "--share", "A=30.005%"]
    lines = lines_of(tmp_path, *more, "--lifetime", "1.5s")
    days = {datetime.fromtimestamp(float(str(line["ts"])), UTC).date() for line in lines if "event" not in line}
    assert len(days) == 1
    assert before <= days.pop() <= datetime.now(UTC).date()
    (text,) = {str(line["text"]) for line in lines if line.get("event") == "policy"}
    policy = compile_policy(text, "made")
    assert policy.render_diagnostics() == ""
    assert {one.name for one in policy.require_model().classes} == {"A", "B", "/c/d", "default"}
    assert text == (
        "set lifetime = 1500ms\n"
        "let A = </a> | <h.example/n/>\n"
        "let B = </b/*.html>\n"
        "A.server_resource = 30% hard\n"
        "B.server_resource = 23.33% hard\n"
        "</c/d>.server_resource = 23.33% hard\n"
        "default.server_resource = 23.33% hard\n"
    )
    assert {line["policy"] for line in lines if "event" not in line} != {""}


def test_a_log_with_a_given_beginning(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "--begin", "2026-02-03T04:05")
    assert 0 <= float(str(lines[-1]["ts"])) - datetime(2026, 2, 3, 4, 5, tzinfo=UTC).timestamp() <= 10
    assert lines == lines_of(tmp_path, "--begin", "2026-02-03T04:05:00Z")


def test_classes_that_no_specification_can_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(tmp_path, "--mix", "my class=1:/x")
    assert {line["event"] for line in lines if "event" in line} == {"view", "capacity"}
    assert "the log has no specification: no rule can name the class 'my class'" in capsys.readouterr().err


def test_with_room_for_all_nobody_is_denied(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "--capacity", "100MB", "--nodes", "1")
    assert {line["decision"] for line in lines if "event" not in line} == {"served"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--share", "C=3%"], "--share C=3%: write CLASS=PERCENT with a class of the mix"),
        (["--share", "A=60%", "--share", "B=50%"], "which is more than 100%"),
        (["--nodes", "0"], "--nodes: '0' is not a whole number"),
        (["--size", "0"], "have to be greater than 0"),
        (["--log-spec", "nowhere"], "--log-spec nowhere: No such file"),
    ],
)
def test_mistakes(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*MADE, *options]) == 2
    assert said in capsys.readouterr().err


def test_options_of_logs_want_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--rate", "1", "--duration", "1s", "--capacity", "1MB"]) == 2
    assert "add --as-log" in capsys.readouterr().err
