"""Compiles the policies that were in force, from event lines or from ``--spec``.

A request line names its policy by hash; the event line of that policy has the text. ``--spec`` replaces all of them.
Neighbours: ``situations`` decides which rules bind when, ``verdicts`` judges them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.webqos import Specification, compile_policy
from qosweb.webqos.loader import load
from qosweb.webqos.match.matcher import Matcher, watched
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.model import Bytes, Duration, Requests
from qosweb.webqos.policy.coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qosweb.analytics.read.rows import LogEvent
    from qosweb.webqos.model.model import Model

EVERY = "*"  # policy name of all lines with --spec
RESPONSES_MAX = 8  # each adds a counter to every line


@dataclass(frozen=True)
class LoggedPolicy:
    """A compiled specification, with the parts that the verdicts need."""

    name: str
    text: str
    built: Specification
    model: Model
    coverage: Coverage
    numbers: dict[str, int]  # class numbers by name
    subjects: frozenset[str]  # cluster properties that its conditions use

    @property
    def counts_nodes(self) -> bool:
        """True if a bound grows with the number of nodes."""
        return any(isinstance(rule.value, Requests | Bytes) and rule.value.per_node for rule in self.model.constraints)

    @property
    def is_absolute(self) -> bool:
        """True if a bound depends on the capacity: a rate, or a hard bound."""
        return any(rule.hard or isinstance(rule.value, Requests | Bytes) for rule in self.model.constraints)

    def line(self, constraint: int) -> int:
        return self.built.line(constraint)

    def priority_line(self, priority: int) -> int:
        return self.built.priority_line(priority)

    def watched_sets(self) -> set[int]:
        return watched(self.model)

    def matcher(self) -> Matcher:
        return Matcher(self.model)


def from_file(name: str) -> LoggedPolicy:
    """Compiles a specification. Raises UsageError after writing its errors to standard error."""
    return _policy(EVERY, load(name))


def from_events(events: Iterable[LogEvent]) -> tuple[dict[str, LoggedPolicy], list[str]]:
    """The policies by hash; and messages about those that cannot be compiled."""
    found: dict[str, LoggedPolicy] = {}
    troubles: list[str] = []
    texts: dict[str, str] = {}
    for event in events:
        if event.kind != "policy" or not event.text:
            continue
        known = texts.setdefault(event.policy, event.text)
        if event.policy in found or known != event.text:
            continue
        built = compile_policy(event.text, f"policy {event.policy}", check=False)
        if built.has_errors:
            troubles.append(f"policy {event.policy}, logged by {event.node}, has errors; its requests are not judged")
        else:
            found[event.policy] = _policy(event.policy, built)
    return found, troubles


def response_limits(policies: Mapping[str, LoggedPolicy]) -> tuple[int, ...]:
    """The guaranteed response times, in milliseconds; of more than ``RESPONSES_MAX`` the shortest."""
    found = {
        rule.value.ms
        for policy in policies.values()
        for rule in policy.model.constraints
        if rule.attribute == "response_time" and isinstance(rule.value, Duration)
    }
    return tuple(sorted(found)[:RESPONSES_MAX])


def _policy(name: str, built: Specification) -> LoggedPolicy:
    model = built.require_model()
    leaves = [leaf for rule in model.rules if rule.condition is not None for leaf in c.leaves(rule.condition)]
    subjects = {leaf.subject for leaf in leaves if isinstance(leaf, c.Within) and leaf.subject in c.OF_CLUSTER}
    numbers = {one.name: at for at, one in enumerate(model.classes)}
    return LoggedPolicy(name, built.source.text, built, model, Coverage(model), numbers, frozenset(subjects))
