"""Base class of specifications: an automaton that follows a trace and rejects the first step it does not allow.

A specification names its transitions after the classes of `cluster.actions`: `MembershipView` is checked by
`membership_view_pre` and followed by `membership_view_eff`. Each precondition is one `require` with its text. Each
choice that a specification leaves open is one `branch`. The coverage counts how often each was met.

Two rules keep the coverage honest. All text in a `_pre`, an `_eff` or an `invariant_` is the text of a clause, so that
the clauses that were never met can be listed. And a clause is counted when it decides, not when it is read: a condition
that cannot fail is not a clause.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from cluster.actions import NAMES, Action
from cluster.names import ProcessId, ViewId

if TYPE_CHECKING:
    from cluster.specs.invariants.joint import Joint


class TraceStep(msgspec.Struct, frozen=True):
    """One element of a trace."""

    number: int
    now: float
    at: ProcessId
    action: Action

    def __str__(self) -> str:
        return f"{self.number:>7} {self.now:10.4f}  {self.at}  {format_value(self.action)}"


class Violation(Exception):
    """A step that a specification does not allow, or a state in which an invariant does not hold."""

    def __init__(self, spec: str, clause: str, details: tuple[object, ...]) -> None:
        super().__init__(spec, clause)
        self.spec = spec
        self.clause = clause
        self.details = details
        self.at: ProcessId | None = None  # the process whose state violates the invariant
        self.step: TraceStep | None = None
        self.before: tuple[TraceStep, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.spec} does not hold{f' at {self.at}' if self.at is not None else ''}: {self.clause}"]
        if self.step is not None:
            at, action = self.step.at, format_value(self.step.action)
            lines = [f"{self.spec} step {self.step.number}: {action} at {at} not enabled: {self.clause}"]
        lines.extend(f"    {format_value(detail)}" for detail in self.details)
        if self.before:
            lines.append("  the steps before it:")
            lines.extend(f"  {step}" for step in self.before)
        return "\n".join(lines)


def format_value(value: object) -> str:
    """Formats a value for readers: names of processes and views, no module paths."""
    if isinstance(value, tuple) and not isinstance(value, ProcessId | ViewId) and not hasattr(value, "_fields"):
        return "(" + ", ".join(format_value(part) for part in value) + ")"
    if isinstance(value, msgspec.Struct) and type(value).__str__ is object.__str__:
        fields = ", ".join(format_value(getattr(value, name)) for name in value.__struct_fields__)
        return f"{type(value).__name__}({fields})"
    if isinstance(value, bytes):
        return repr(value if len(value) <= 24 else value[:24] + b"...")
    return str(value)


def _transition_name(action: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()


ACTIONS: dict[str, type[Action]] = {_transition_name(name): kind for kind, name in NAMES.items()}

Transition = Callable[[Any, ProcessId], None]


class Spec:
    """Base class of all specifications. `<action>_pre` checks a step, `<action>_eff` follows it."""

    NAME: ClassVar[str] = ""

    def __init__(self) -> None:
        self.coverage: dict[str, int] = dict.fromkeys(self.clauses(), 0)
        self._transitions: dict[type[Action], tuple[Transition | None, Transition | None, str]] = {}
        for name, kind in ACTIONS.items():
            pre, eff = getattr(self, f"{name}_pre", None), getattr(self, f"{name}_eff", None)
            if pre is not None or eff is not None:
                self._transitions[kind] = (pre, eff, name)
                self.coverage[name] = 0

    @classmethod
    def clauses(cls) -> list[str]:
        """The texts of all preconditions and branches, in the order of the source, parents first."""
        found: dict[str, None] = {}
        for parent in reversed(cls.__mro__):
            for name, function in vars(parent).items():
                if isinstance(function, FunctionType) and (
                    name.endswith(("_pre", "_eff")) or name.startswith("invariant_")
                ):
                    text = function.__code__.co_consts
                    found.update(
                        (const, None) for const in text if isinstance(const, str) and const != function.__doc__
                    )
        return list(found)

    @property
    def actions(self) -> tuple[type[Action], ...]:
        """The actions of its signature."""
        return tuple(self._transitions)

    def observe(self, at: ProcessId, action: Action) -> None:
        """Follows one step, or raises Violation."""
        transition = self._transitions.get(type(action))
        if transition is None:
            return
        pre, eff, name = transition
        if pre is not None:
            pre(action, at)
        if eff is not None:
            eff(action, at)
        self.coverage[name] += 1

    def after(self, p: ProcessId, joint: Joint) -> None:
        """Checks the state of p after an input that it handled. For invariants."""

    def judge_again(self) -> None:
        """Discards the record of earlier checks, so that the next check covers everything."""

    def require(self, holds: bool, clause: str, *details: object) -> None:
        """Checks a precondition: the condition, its text, and details for the violation report."""
        if not holds:
            raise Violation(self.NAME, clause, details)
        self.coverage[clause] += 1

    def branch(self, clause: str) -> None:
        """Counts a choice that the specification leaves open."""
        self.coverage[clause] += 1
