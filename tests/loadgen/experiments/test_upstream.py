"""How the experiments with an application server judge: shares, use, failures, and the time of an outage."""

from __future__ import annotations

from loadgen.experiments.comparison import HEAVY, SITUATIONS, PeerMeasurement
from loadgen.experiments.evidence import DENIED, FAILED, SERVED, Evidence, ObservedRequest
from loadgen.experiments.findings import FAIL, PASS, ExperimentFindings
from loadgen.experiments.scenarios.upstream import OURS, judge

ASKED_A = {name: int(400 * part) for name, part in SITUATIONS.items()}  # a second; the server does 200


def seen(name: str, at_s: float, what: str = SERVED, took_s: float = 0.1) -> ObservedRequest:
    return ObservedRequest(at_s - took_s, at_s, name, "n", what, 13, "")


def measured(
    situation: str, a: int, b: int, *, lasted_s: int = 10, outage: tuple[int, int] = (99, 99), server: str = OURS,
    unlogged: int = 0, took_s: float = 0.1,
) -> PeerMeasurement:  # fmt: skip
    """`a` and `b` served each second, except in an outage, when all fail."""
    rows = []
    for second in range(lasted_s):
        what = FAILED if outage[0] <= second < outage[1] else SERVED
        rows += [seen("/a", second + 0.5, what, took_s) for _ in range(a)]
        rows += [seen("/a", second + 0.5, DENIED) for _ in range(ASKED_A[situation] - a)]
        rows += [seen("/b", second + 0.5, what, took_s) for _ in range(b)]
    return PeerMeasurement(server, situation, Evidence(rows, rows[unlogged:], 0.0, float(lasted_s), 0.0, 0))


def judged(a: int = 118, b: int = 78, idle_b: int = 196, **more: int) -> ExperimentFindings:
    found = [measured(name, a if asked else 0, b if asked else idle_b, **more) for name, asked in ASKED_A.items()]  # type: ignore[arg-type]
    return judge(found, fails=False, quick=False)


def test_shares_use_and_agreement_are_judged() -> None:
    assert judged().verdict == PASS
    assert judged(a=100, b=96).verdict == FAIL
    assert judged(b=50).verdict == FAIL
    assert judged(idle_b=150).verdict == FAIL
    assert judged(unlogged=1).verdict == FAIL


def test_other_servers_are_measured_only() -> None:
    findings = judge(
        [measured(HEAVY, 118, 78), measured(HEAVY, 190, 5, server="HAProxy, priority")], fails=False, quick=False
    )
    assert findings.verdict == PASS
    assert "/b starves behind HAProxy, priority" in findings.seen


def test_an_outage_counts_neither_before_nor_from_three_seconds_after() -> None:
    """It lasts from 6 s to 9 s of 18."""
    good = measured(HEAVY, 118, 78, lasted_s=18, outage=(6, 12))
    assert judge([good], fails=True, quick=False).verdict == PASS
    slow_to_return = measured(HEAVY, 118, 78, lasted_s=18, outage=(6, 14))
    assert judge([slow_to_return], fails=True, quick=False).verdict == FAIL
    short_before = measured(HEAVY, 118, 78, lasted_s=18, outage=(4, 12))
    assert judge([short_before], fails=True, quick=False).verdict == FAIL
    late = measured(HEAVY, 118, 78, lasted_s=18, outage=(6, 12), took_s=1.2)
    assert judge([late], fails=True, quick=False).verdict == FAIL
