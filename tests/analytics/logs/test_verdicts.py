"""Every kind of guarantee, held and violated, on a log with known truth; checked by an independent verifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from qosweb.analytics.read.rows import HELD, NOT_TESTED, VIOLATED
from tests.analytics.logs.story import DIVISION, PHASES, WINDOW_S, Phase, Story
from tests.analytics.logs.verifier import verify

if TYPE_CHECKING:
    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.rows import EvidenceQuery, Verdict


def _of(findings: Findings, policy: str, window_s: int) -> list[Verdict]:
    return [v for v in findings.windows if v.key and v.policy == policy and v.key.window_s == window_s]


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_each_fault_is_found_in_its_window_only(phase: Phase, findings: Findings, story: Story) -> None:
    policy, begin = story.policies[phase.name], story.begins[phase.name]
    kept, broken = _of(findings, policy, begin), _of(findings, policy, begin + WINDOW_S)
    assert [v for v in kept if v.outcome == VIOLATED] == []
    assert {v.rule for v in broken if v.outcome == VIOLATED} == set(phase.rules)
    assert {v.rule for v in kept if v.outcome == HELD} >= set(phase.rules[:1]), "the rule was put to the test"


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_evidence_lines_show_the_fault(phase: Phase, findings: Findings, story: Story) -> None:
    policy = story.policies[phase.name]
    by_rid = {line["rid"]: line for line in story.log.lines if "event" not in line}
    shown = [v for v in findings.samples if v.policy == policy and v.rule in phase.rules]
    violated = [v for v in findings.windows if v.policy == policy and v.outcome == VIOLATED]
    assert shown == violated
    for verdict in shown:
        assert verdict.key
        assert verdict.evidence
        for rid in findings.samples[verdict]:
            line = by_rid[rid]
            assert line["policy"] == policy
            assert line["class"] in verdict.evidence.classes
            assert verdict.key.window_s <= line["ts"] + line["queue_ms"] / 1000 < verdict.key.window_s + WINDOW_S
            assert _shows(line, verdict.evidence), (verdict.rule, line)


def _shows(line: dict[str, Any], evidence: EvidenceQuery) -> bool:
    """True if the line itself shows the violation."""
    match evidence.what:
        case "lost":
            return line["decision"] in ("denied", "expired")
        case "held back":
            return line["decision"] in ("denied", "expired") or (line["decision"], line["status"]) == ("failed", 499)
        case "served":
            return bool(line["decision"] == "served")
        case "waited":
            return bool(line["queue_ms"] > evidence.limit_ms)
        case "slow":
            return bool(line["decision"] == "served" and line["service_ms"] > evidence.limit_ms)
        case what:
            raise AssertionError(what)


def test_a_window_in_which_the_policy_changes_is_judged_in_parts(findings: Findings, story: Story) -> None:
    for number, promise in ((0, 0.6), (1, 0.2)):
        name = f"switched {number}"
        found = _of(findings, story.policies[name], story.begins[name])
        assert {v.outcome for v in found} == {HELD}
        exact = next(v for v in found if v.kind == "share at least")
        assert exact.whole == 5 * 100 * 1000
        assert exact.promise == pytest.approx(promise * exact.whole)


def test_a_window_in_which_nodes_join_or_leave_is_judged_in_parts(findings: Findings, story: Story) -> None:
    """By the bound and the capacity of each part; the second of the change is not judged."""
    policy, begin = story.policies["grown"], story.begins["grown"]
    came, went = _of(findings, policy, begin), _of(findings, policy, begin + WINDOW_S)
    assert {v.outcome for v in came} == {HELD}
    for found in (came, went):
        assert sorted(v.promise or 0 for v in found if v.kind == "rate at most") == [20.0, 40.0]
    assert {(v.kind, v.reason.rpartition("; ")[2]) for v in went if v.outcome == VIOLATED} == {
        (kind, "4 s of the window, 2 nodes") for kind in ("share at least", "rate at most", "division")
    }


def test_the_verifier_agrees(findings: Findings, story: Story) -> None:
    own = verify(story.log.lines, story.simple)
    outcomes = {NOT_TESTED: 0, HELD: 0, VIOLATED: 0}
    for (policy, rule, window_s), seen in own.items():
        found = [v for v in _of(findings, policy, window_s) if v.rule == rule]
        assert found, (rule, window_s)
        worst = min(found, key=lambda v: (VIOLATED, HELD, NOT_TESTED).index(v.outcome))
        assert worst.outcome == seen.outcome, (story.simple[policy], worst, seen)
        if seen.promise is not None:
            (same,) = (v for v in found if v.kind.endswith(seen.kind))
            assert same.promise == pytest.approx(seen.promise, rel=1e-3, abs=20), (rule, window_s)
            assert same.got == pytest.approx(seen.got)
        outcomes[seen.outcome] += 1
    assert min(outcomes.values()) >= 5, "all outcomes occur"


def test_the_verifier_finds_the_planted_faults(story: Story) -> None:
    """The verifier agrees with the planted faults, too, and covers most kinds of guarantees."""
    own = verify(story.log.lines, story.simple)
    phases = [phase for phase in PHASES if story.policies[phase.name] in story.simple]
    assert len(phases) >= 13
    for phase in phases:
        policy, begin = story.policies[phase.name], story.begins[phase.name]
        broken = {rule for (of, rule, at), seen in own.items() if of == policy and seen.outcome == VIOLATED}
        assert broken == set(phase.rules) - {DIVISION}, phase.name
        assert {at for (of, _, at), seen in own.items() if of == policy and seen.outcome == VIOLATED} == {
            begin + WINDOW_S
        }


def test_the_run_is_violated_and_its_rules_say_where(findings: Findings, story: Story) -> None:
    assert findings.outcome == VIOLATED
    for phase in PHASES:
        of_run = [v for v in findings.run if v.policy == story.policies[phase.name]]
        assert {v.rule for v in of_run if v.outcome == VIOLATED} == set(phase.rules)


def test_the_guarantees_of_the_cluster_are_held(findings: Findings) -> None:
    assert {v.outcome for v in findings.cluster} == {HELD}


def test_tables_add_up(findings: Findings, story: Story) -> None:
    requests = [line for line in story.log.lines if "event" not in line]
    whole = next(row for row in findings.table if (row.window_s, row.node, row.name) == (None, None, None))
    assert findings.lines == whole.asked == len(requests)
    assert whole.sent_bytes == sum(line["bytes"] for line in requests if line["decision"] == "served")
    for key in ("window_s", "node"):
        rows = [row for row in findings.table if getattr(row, key) is not None and row.name is not None]
        assert sum(row.served for row in rows) == whole.served
    of_nodes = [row for row in findings.table if row.window_s is not None and row.node is not None]
    assert {row.name for row in of_nodes} == {None}
    assert sum(row.asked for row in of_nodes) == whole.asked
    assert all(row.service_ms for row in of_nodes if row.served)
    assert whole.service_ms[0] == pytest.approx(5.0, rel=0.01)
    assert sum(row.requests for row in findings.top if row.what == "client") == len(requests)
    assert {row.known_bps for row in findings.capacity} == {100_000}, "the least that there was in a window"
