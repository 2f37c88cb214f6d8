"""Mutation testing of the layers: runs seeds against each mutant until a check catches it.

A mutant replaces one piece of a layer while its runs last. A mutant that survives is either an equivalent protocol,
with a reason, or a gap in the checks.
Below: run, mutation, mutant_catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.sim.run import RunResult


class AnyMutant(Protocol):
    """A change to a layer (`mutation.Mutant`). `apply` makes the change and returns a function that undoes it."""

    @property
    def name(self) -> str: ...
    @property
    def layer(self) -> str: ...
    def apply(self) -> Callable[[], None]: ...


class MutantResult(msgspec.Struct, frozen=True):
    """How a mutant was caught, or that it survived."""

    name: str
    layer: str
    by: str  # the check that caught it; empty if it survived
    seeds: int  # number of seeds that were run
    seed: int = -1  # the seed that caught it


def hunt(mutant: AnyMutant, seeds: Iterable[int], run_seed: Callable[[int], RunResult]) -> MutantResult:
    """Run seeds with the wrong version until one of them fails."""
    undo = mutant.apply()
    count = 0
    try:
        for seed in seeds:
            count += 1
            failure = run_seed(seed).failure
            if failure is not None:
                return MutantResult(mutant.name, mutant.layer, failure.kind, count, seed)
    finally:
        undo()
    return MutantResult(mutant.name, mutant.layer, "", count)


def row(caught: MutantResult) -> str:
    """A table line: layer, mutant, the check that caught it, number of seeds, and the seed."""
    line = f"{caught.layer:<18} {caught.name:<42} {caught.by or 'survived':<16} {caught.seeds:>4}"
    return f"{line}  seed {caught.seed}" if caught.by else line
