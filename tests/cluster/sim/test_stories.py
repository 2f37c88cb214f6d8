"""Golden scenarios: narrated again, they equal the files that `pytest --write-golden` wrote.

The specifications check them too, and all of them end in a complete group.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.sim.data.run import DataSpecifications
from cluster.sim.mutant_catalogue import MUTANTS
from cluster.sim.narrate import Detail
from cluster.sim.real_stack import factory_of
from cluster.sim.spec_judge import Specifications
from cluster.sim.stories import STORIES, has_data_service, has_interim_service, narrate_story
from cluster.specs.spec import Violation
from cluster.stack import Process

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.parametrize("name", sorted(STORIES))
def test_a_scenario_equals_its_golden_file(name: str, write_golden: bool) -> None:
    lines: list[str] = []
    judge = Specifications("a", interim=has_interim_service(name))
    if has_data_service(name):
        judge = DataSpecifications("a")
    narrate_story(name, factory_of(name), lines.append, judge=judge)
    assert judge.clauses()["LIVENESS: every submission has an outcome"] > 0
    golden = GOLDEN / f"{name}.txt"
    if write_golden:
        golden.write_text("\n".join(lines) + "\n", "utf-8")
    assert lines == golden.read_text("utf-8").splitlines(), "if the new conversation is right: pytest --write-golden"


def test_a_violation_stops_the_narration() -> None:
    undo = next(mutant for mutant in MUTANTS if mutant.name == "an outdated attempt stays current").apply()
    try:
        with pytest.raises(Violation, match="the view reported to p is cur and client-cur"):
            narrate_story("partition", Process, lambda _line: None, judge=Specifications("a"))
    finally:
        undo()


def test_every_golden_file_has_a_scenario() -> None:
    assert sorted(path.stem for path in GOLDEN.iterdir()) == sorted(STORIES)


def test_more_detail_writes_more_lines() -> None:
    counts: list[int] = []
    for detail in Detail:
        lines: list[str] = []
        narrate_story("broadcast", Process, lines.append, detail)
        counts.append(len(lines))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_the_outcomes_of_the_stories() -> None:
    def ends(name: str, nodes: str) -> list[bytes]:
        world = narrate_story(name, Process, lambda _line: None)
        assert world.has_primary(nodes), name
        histories = [world.delivered(node) for node in nodes]
        assert all(history == histories[0] for history in histories), name
        return sorted(histories[0])

    assert ends("founding", "abc") == []
    assert ends("joining", "abc") == [b"x", b"y"]
    assert ends("leaving", "ab") == [b"last"]
    assert ends("crash", "abc") == [b"x", b"y"]
    assert ends("partition", "abcde") == [b"x", b"y"]
    assert ends("partition-in-exchange", "abc") == [b"x", b"y"]
    assert ends("falling", "ab") == [b"still here"]
    assert ends("even-split", "abcd") == [b"x", b"y"]
    assert ends("total-restart", "abc") == [b"x", b"y"]
    assert len(ends("laggard", "abc")) == 60
