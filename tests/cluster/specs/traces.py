"""Helpers for hand-made traces: short names for processes, views and messages, and verdicts."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence

import pytest

from cluster.actions import Action, Crashed, Recovered
from cluster.entries import APPLICATION, VIEW, Entry, pack_bodies
from cluster.messages import Batch, Plain
from cluster.names import NOBODY, Label, ProcessId, View, make_view
from cluster.specs.checkers import Checkers
from cluster.specs.spec import Spec, Violation

A, B, C, D = (ProcessId(name) for name in "abcd")
CRASH, CRASH_DISK, RECOVER = Crashed(False), Crashed(True), Recovered(2)

Trace = Sequence[tuple[ProcessId, Action]]


def view(epoch: int, *members: ProcessId, cids: dict[ProcessId, int] | None = None) -> View:
    """The view that these members form in this epoch; start-change ids default to the epoch."""
    return make_view(epoch, {member: (cids or {}).get(member, epoch) for member in members})


def batch(text: str) -> Batch:
    return Batch(1, pack_bodies([text.encode()]))


def plain(text: str) -> Plain:
    return Plain(0, batch(text))


def entry(text: str) -> Entry:
    return Entry(APPLICATION, text.encode())


def label(epoch: int, seqno: int, origin: ProcessId) -> Label:
    return Label(view(epoch, A, B, C).id, seqno, origin)


def view_label(v: View) -> Label:
    return Label(v.id, 0, NOBODY)


VIEW_ENTRY = Entry(VIEW, b"")


def verdict(specs: list[Spec], trace: Trace) -> tuple[int, str]:
    """How many steps were allowed, and the clause that rejected the next ('' if all were allowed)."""
    checkers = Checkers(A, specs)
    for number, (at, action) in enumerate(trace):
        try:
            checkers.observe(at, action)
        except Violation as violation:
            if violation.step is None or violation.clause not in str(violation):
                raise
            return number, violation.clause
    return len(trace), ""


def allows(specs: list[Spec], trace: Trace) -> None:
    assert verdict(specs, trace) == (len(trace), "")


def refuses(specs: list[Spec], trace: Trace, clause: str) -> None:
    """All steps but the last are allowed, and this clause rejects the last."""
    assert verdict(specs, trace) == (len(trace) - 1, clause)


def preconditions(spec: type[Spec]) -> set[str]:
    """The texts of all `require` calls that a specification adds to those of its parents."""
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(spec)))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "require":
            clause = node.args[1]
            assert isinstance(clause, ast.Constant)
            found.add(str(clause.value))
    return found


def each(cases: dict[str, Trace]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("clause", "trace"), cases.items(), ids=range(len(cases)))
