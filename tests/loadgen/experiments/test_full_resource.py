"""How the experiments with a full processor or line judge, and their closed loop of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.experiments.closed_loop import SLOT_S, ClassResult, run
from loadgen.experiments.findings import FAIL, PASS, ExperimentFindings
from loadgen.experiments.scenarios.full_resource import LINE, NGINX, OURS, PROCESSOR, FullResourceMeasurement, judge
from tests.support.nodes import RunningNode

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 6
LINE_BYTES = 4_700_000  # a second, of bodies, on a line of 40 Mbit/s


def measured(
    a_percent: float, *, server: str = OURS, bps: float = LINE_BYTES, extra: int = 3, others: int = 0
) -> FullResourceMeasurement:
    slots = int(SECONDS / SLOT_S)
    parts = (a_percent / 100, 1 - a_percent / 100)
    sizes = [[0, *[int(part * bps * SLOT_S)] * (slots - 1)] for part in parts]  # the first slot counts for nothing
    classes = [ClassResult(f"/{name}", 8, of, 100, others) for name, of in zip("ab", sizes, strict=True)]
    return FullResourceMeasurement(server, "8/8", classes, 200 + extra)


def judged(*found: FullResourceMeasurement, causes: str = "line") -> ExperimentFindings:
    return judge(LINE, found, {causes}, quick=False)


def test_shares_use_agreement_and_cause_are_judged() -> None:
    assert judged(measured(64)).verdict == PASS
    assert judged(measured(60)).verdict == FAIL
    assert judged(measured(70)).verdict == FAIL
    assert judged(measured(65, bps=0.8 * LINE_BYTES)).verdict == FAIL
    assert judged(measured(65, extra=-1)).verdict == FAIL
    assert judged(measured(65, extra=17)).verdict == FAIL
    assert judged(measured(65, others=1)).verdict == FAIL
    assert judged(measured(65), causes="processor").verdict == FAIL


def test_nginx_is_measured_only() -> None:
    findings = judged(measured(65), measured(20, server=NGINX, bps=1e6, extra=-200))
    assert findings.verdict == PASS
    assert findings.seen.endswith("with nginx 20 %.")


def test_a_processor_that_the_clients_do_not_fill_is_no_test() -> None:
    for asleep, verdict in ((0.05, PASS), (0.4, FAIL)):
        one = measured(69, bps=1e6)._replace(asleep=asleep)
        assert judge(PROCESSOR, [one], {"processor"}, quick=False).verdict == verdict


def test_clients_of_the_closed_loop_count_what_they_get(tmp_path: Path) -> None:
    sizes = {"a": 10_000, "b": 300_000}
    for name, size in sizes.items():
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "page").write_bytes(b"x" * size)
    classes = [ClassResult(f"/{name}/page", 2, [0, 0]) for name in sizes]
    classes.append(ClassResult("/missing", 1, [0, 0]))
    with RunningNode(tmp_path / "site", tmp_path) as node:
        run("127.0.0.1", node.port, 2 * SLOT_S, classes)
        *found, missing = classes
        for one, size in zip(found, sizes.values(), strict=True):
            assert one.served > 0
            assert 0 < sum(one.sizes) <= one.served * size
        assert (missing.served, missing.others > 0, missing.sizes) == (0, True, [0, 0])
