"""Wrong versions of the layers, one line each, and how long each of them goes uncaught.

A checker is worth what it catches. A mutant replaces one piece of a layer for the time of its runs; seeds are run until
one of them fails. A mutant that survives is either shown to be the same protocol, or a hole to close.
Below: run, mutation, catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cluster.sim.run import RunResult


class AnyMutant(Protocol):
    """A change to a layer (`mutation.Mutant`). `apply` makes it, and returns what takes it back."""

    @property
    def name(self) -> str: ...
    @property
    def layer(self) -> str: ...
    def apply(self) -> Callable[[], None]: ...


class MutantResult(msgspec.Struct, frozen=True):
    name: str
    layer: str
    by: str  # the specification, or "" where nobody noticed
    seeds: int  # that were run
    seed: int = -1  # the one in which it was noticed


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
    """A line of the table: layer, mutant, who noticed, after how many seeds, and in which of them."""
    told = f"{caught.layer:<18} {caught.name:<42} {caught.by or 'nobody':<16} {caught.seeds:>4}"
    return f"{told}  seed {caught.seed}" if caught.by else told
