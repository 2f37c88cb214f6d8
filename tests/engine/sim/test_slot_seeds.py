"""Simulated runs with pools of upstream servers: fixed seeds under all judges, and the seeds that showed defects."""

from __future__ import annotations

from collections import Counter

import pytest

from qosweb.engine.sim.command_line import line
from qosweb.engine.sim.run import play
from qosweb.engine.sim.slot_plan import make_slot_plan

pytestmark = pytest.mark.long

SEEDS = range(10, 14)
FAILED_ONCE = {
    2: "a node raised its part by what it read from its log, and granted nothing of it until the next event",
    3: "a slot granted to a request that had just been cancelled counted as in service",
    4: "a restatement of an earlier life, ordered late, made grants to that life valid",
    5: "slots of a server in two pools counted for one of them only",
    1060: "a node that restarted with another policy started requests before it knew its part of a shared server",
    1295: "a slot that had just been taken outside the primary view was granted again when the node's part changed",
    1036: "a node that heard late that it had been left out subtracted what it had finished since then",
    50152: "the part of a member that returned was used before it had told what it had in service",
    72061: "the failure of a request whose start was lost with a batch made the law divide by zero",
    7: "a restarted node used all slots of a shared server in a minority",
}
HAVE_TO_OCCUR = (
    "decides alone", "another policy", "starts at a server", "starts at once", "starts after waiting", "expired",
    "hangs up while it is waiting", "hangs up while it is served", "a server fails a request",
    "a server is reported OUT", "a server is reported HEALTHY", "requests for servers: served",
    "requests for servers: lost with its node",
)  # fmt: skip

met: Counter[str] = Counter()


@pytest.mark.parametrize("seed", [*SEEDS, *FAILED_ONCE])
def test_fixed_seeds(seed: int) -> None:
    outcome = play(make_slot_plan(seed))
    assert outcome.failure is None, f"{line(outcome)} --slots"
    met.update(outcome.sometimes)
    met.update({f"judged: {what}": count for what, count in outcome.clauses.items()})
    met["runs"] += 1


def test_the_seeds_cover_the_interesting_events() -> None:
    if met["runs"] < len(SEEDS) + len(FAILED_ONCE):
        pytest.skip("only some of the seeds were run")
    judged = (
        "slots outside the primary view", "slots in the primary view", "slots of both sides", "servers that are out",
        "slots in service", "reservations",
    )  # fmt: skip
    assert [what for what in (*HAVE_TO_OCCUR, *(f"judged: {one}" for one in judged)) if not met[what]] == []
