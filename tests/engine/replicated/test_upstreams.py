"""Votes of the nodes on upstream servers, and what the cluster makes of them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from qosweb.engine.replicated.effects import UpstreamsReported
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote, disagreements, outs_of
from tests.engine.driver import Cluster

OUT, HEALTHY, UNKNOWN = Vote.OUT, Vote.HEALTHY, Vote.UNKNOWN


@dataclass(frozen=True)
class Row:
    """A row of a table; everything but the vote has a default."""

    vote: Vote = UNKNOWN
    name: str = "app"
    url: str = "http://app.example"
    is_shared: bool = True
    slots: int = 8
    paths: tuple[str, ...] = ()

    def report(self) -> UpstreamReport:
        reason = "timeouts" if self.vote is OUT else ""
        return UpstreamReport(
            self.name, self.url, self.is_shared, 1, self.slots, (), self.paths, vote=self.vote, reason=reason
        )


def cluster_with(**rows: Row | tuple[Row, ...]) -> Cluster:
    cluster = Cluster("", "".join(rows))
    for node, row in rows.items():
        cluster.tell(node, upstreams=[one.report() for one in ([row] if isinstance(row, Row) else row)])
    return cluster


def out_at(cluster: Cluster) -> str:
    """The nodes at which the server is out."""
    pipes = cluster.machine.pipes
    return "".join(pid.name for pid in pipes if "app" in outs_of(pipes, pid))


@pytest.mark.parametrize(
    ("votes", "out"),
    [
        ((UNKNOWN, UNKNOWN, UNKNOWN), ""),
        ((OUT, UNKNOWN, UNKNOWN), "abc"),  # nodes without traffic follow the one that has some
        ((OUT, HEALTHY, UNKNOWN), "a"),  # perhaps a has lost its own way to the server
        ((OUT, OUT, HEALTHY), "abc"),
        ((OUT, HEALTHY, HEALTHY), "a"),
        ((HEALTHY, HEALTHY, HEALTHY), ""),
    ],
)
def test_majority_of_those_with_evidence_decides(votes: tuple[Vote, Vote, Vote], out: str) -> None:
    cluster = cluster_with(a=Row(votes[0]), b=Row(votes[1]), c=Row(votes[2]))
    assert out_at(cluster) == out


def test_server_of_one_node_is_out_there_alone() -> None:
    cluster = cluster_with(a=Row(OUT, is_shared=False), b=Row(is_shared=False))
    assert out_at(cluster) == "a"


def test_reason_names_the_nodes() -> None:
    cluster = cluster_with(a=Row(OUT), b=Row())
    pipes = cluster.machine.pipes
    assert [outs_of(pipes, pid) for pid in pipes] == [{"app": "timeouts"}, {"app": "out at a"}]


def test_votes_of_a_node_that_left_do_not_count() -> None:
    cluster = cluster_with(a=Row(), b=Row(OUT), c=Row())
    assert out_at(cluster) == "abc"
    cluster.view("ac")
    assert out_at(cluster) == ""


def test_only_changes_have_an_effect() -> None:
    cluster = cluster_with(a=Row(), b=Row(OUT))
    cluster.tell("b", upstreams=[Row(OUT).report()])
    assert [one.node.name for one in cluster.effects if isinstance(one, UpstreamsReported)] == ["a", "b"]


def test_equal_tables_agree() -> None:
    assert disagreements(cluster_with(a=Row(OUT), b=Row(), c=()).machine.pipes) == []
    assert disagreements(cluster_with(a=Row(is_shared=False), b=Row(is_shared=False, slots=9)).machine.pipes) == []


def test_differences_of_tables_are_named() -> None:
    tables = cluster_with(a=(Row(), Row(name="db")), b=Row(slots=9, paths=("/x", "/y"))).machine.pipes
    assert disagreements(tables) == [
        "upstream app: slots is 8 at a, 9 at b",
        "upstream app: paths is any at a, /x /y at b",
        "upstream db: in the table of a, but not of b",
    ]
