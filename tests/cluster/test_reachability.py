"""View selection from rows: complete cliques, or smaller ones on which all processes agree."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from cluster.messages import Row
from cluster.names import ProcessId
from cluster.reachability import clique_of, is_clique, within_hearing


def rows(**hears: str) -> dict[ProcessId, Row]:
    return {
        ProcessId(name): Row(ProcessId(name), (1, 1), tuple(ProcessId(other) for other in sorted(name + others)))
        for name, others in hears.items()
    }


def cliques(graph: dict[ProcessId, Row]) -> dict[str, str]:
    return {process.name: "".join(member.name for member in clique_of(process, graph)) for process in graph}


def test_processes_that_hear_each_other_form_one_clique() -> None:
    assert set(cliques(rows(a="bcd", b="acd", c="abd", d="abc")).values()) == {"abcd"}


@pytest.mark.parametrize("dead", "abcd")
@pytest.mark.parametrize("witness", "abcd")
def test_the_first_detection_of_a_crash_decides_for_all(dead: str, witness: str) -> None:
    if dead == witness:
        return
    hears = {name: "".join(set("abcd") - {name}) for name in "abcd"}
    hears[witness] = hears[witness].replace(dead, "")
    living = "".join(name for name in "abcd" if name != dead)
    found = cliques(rows(**hears))
    assert all(found[name] == living for name in living)


def test_a_process_that_hears_no_peer_is_left_alone() -> None:
    assert cliques(rows(a="", b="acd", c="abd", d="abc")) == {"a": "a", "b": "bcd", "c": "bcd", "d": "bcd"}


def test_a_newcomer_that_only_one_hears_changes_nothing_for_the_others() -> None:
    assert cliques(rows(x="b", b="cdx", c="bd", d="bc")) == {"x": "x", "b": "bcd", "c": "bcd", "d": "bcd"}
    assert cliques(rows(a="b", b="acd", c="bd", d="bc")) == {"a": "a", "b": "bcd", "c": "bcd", "d": "bcd"}


def test_a_single_bridge_does_not_split_two_groups() -> None:
    found = cliques(rows(a="bcd", b="ac", c="ab", d="aef", e="df", f="de"))
    assert found == {"a": "abc", "b": "abc", "c": "abc", "d": "def", "e": "def", "f": "def"}


def test_a_chain_and_a_ring_end_in_smaller_views() -> None:
    assert cliques(rows(a="b", b="ac", c="b")) == {"a": "ab", "b": "ab", "c": "c"}
    assert cliques(rows(a="bd", b="ac", c="bd", d="ac")) == {"a": "ab", "b": "ab", "c": "cd", "d": "cd"}


def test_processes_heard_only_by_dead_ones_are_ignored() -> None:
    graph = rows(a="b", b="a", c="abd", d="c")
    assert within_hearing(ProcessId("a"), graph) == [ProcessId("a"), ProcessId("b")]


@pytest.mark.parametrize("seed", range(200))
def test_any_graph_falls_into_disjoint_cliques(seed: int) -> None:
    """Holds among processes that know the same rows: all of a mutual component do."""
    fate = Random(seed)
    names = "abcdef"
    mutual = {pair for pair in combinations(names, 2) if fate.random() < 0.6}
    hears = {n: "".join(m for m in names if (min(n, m), max(n, m)) in mutual) for n in names}
    graph = rows(**hears)
    found = cliques(graph)
    for name, members in found.items():
        assert name in members
        assert all(found[member] == members for member in members)
        assert is_clique([ProcessId(member) for member in members], graph)
