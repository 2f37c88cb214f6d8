"""Compiled policy as it is replicated: its text, its model, and its evaluation in the cluster's environment.

Every fact that a condition can ask for comes from the replicated state, so that all replicas evaluate alike: the number
of nodes, their mean load, when pages were accessed, and the time of day. For the time of day each node reports its wall
clock minus cluster time. The median of the reports counts, so that one wrong clock has no effect.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from qosweb.engine.replicated.bound_policy import BoundPolicy
from qosweb.webqos import Environment, compile_policy
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.model import LANGUAGE, Model, decode, digest, encode
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.zones import local_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qosweb.engine.replicated.pipes import Pipe

REBIND_MS = 100  # interval of evaluating conditions that change with time


class OtherLanguage(Exception):
    """The policy was written by a later version of this program."""


class CompiledPolicy:
    """A policy: the text as written, and the model compiled from it."""

    __slots__ = ("_coverage", "_depends", "digest", "language", "model", "packed", "text")

    def __init__(self, text: str, model: Model, packed: bytes, language: int = LANGUAGE) -> None:
        self.text = text
        self.language = language
        self.model = model
        self.packed = packed  # the model, encoded
        self.digest = digest(model)
        self._coverage = Coverage(model)
        conditions = [rule.condition for rule in model.rules if rule.condition is not None]
        subjects = {
            leaf.subject for one in conditions for leaf in c.leaves(one) if isinstance(leaf, c.Within)
        } & c.OF_CLUSTER
        self._depends = bool(subjects - {"nodes"})

    @classmethod
    def of(cls, text: str, packed: bytes, language: int = LANGUAGE) -> CompiledPolicy:
        """Decode a policy. Raises OtherLanguage, or msgspec.DecodeError if it is not a model in any version."""
        if language > LANGUAGE:
            raise OtherLanguage(f"the policy is in language {language}, but this version reads up to {LANGUAGE}")
        return cls(text, decode(packed), packed, language)

    @classmethod
    def of_model(cls, text: str, model: Model) -> CompiledPolicy:
        return cls(text, model, encode(model))

    @classmethod
    @cache
    def empty(cls) -> CompiledPolicy:
        """The policy of a new cluster: one class, no constraints. All replicas start with it."""
        model = compile_policy("", check=False).require_model()
        return cls("", model, encode(model), 0)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.model.classes]

    @property
    def default(self) -> int:
        return self.model.default

    @property
    def may_redirect(self) -> bool:
        return self.model.settings.redirect != "never"

    @property
    def forwards(self) -> bool:
        """Nodes fetch pages from each other instead of redirecting clients."""
        return self.model.settings.redirect == "forward"

    def binds_anew(self, bound_ms: int, now_ms: int) -> bool:
        """Whether time alone may have changed the conditions."""
        return self._depends and now_ms // REBIND_MS > bound_ms // REBIND_MS

    def bind(self, environment: Environment) -> BoundPolicy:
        return BoundPolicy(self.model, self._coverage, environment)

    def environment(
        self, now_ms: int, pipes: Sequence[Pipe], accessed_ms: Mapping[int, int], servers_load_ppm: int = 0
    ) -> Environment:
        """The load is that of the nodes together, or of the pool of upstream servers with the highest load."""
        reported = [pipe for pipe in pipes if pipe.capacity_bps]
        wall_ms = now_ms + median_wall_ms(reported)
        time_s, weekday, day = local_time(self.model.settings.offsets, wall_ms // 1000)
        return Environment(
            time_s=time_s,
            weekday=weekday,
            day=day,
            load_ppm=max(sum(pipe.load_ppm for pipe in reported) // max(1, len(reported)), servers_load_ppm),
            nodes=max(1, len(pipes)),
            accessed_ms={page_set: now_ms - at_ms for page_set, at_ms in accessed_ms.items()},
            capacity_bps=sum(pipe.capacity_bps for pipe in reported) or None,
        )


def median_wall_ms(pipes: Iterable[Pipe]) -> int:
    """The median of wall clock minus cluster time, over the nodes that have reported."""
    walls = sorted(pipe.wall_ms for pipe in pipes if pipe.capacity_bps)
    return walls[(len(walls) - 1) // 2] if walls else 0
