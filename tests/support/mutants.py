"""Asserts that a mutant is caught: by a seed of a simulator, or by a test of its situation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.sim.mutant_hunt import hunt

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.sim.mutation import Mutant
    from cluster.sim.run import RunResult


def assert_a_seed_catches(mutant: Mutant, run_seed: Callable[[int], RunResult], seeds_max: int) -> None:
    """The seed that is known to catch it, or one of the next."""
    caught = hunt(mutant, range(mutant.shown_by, mutant.shown_by + seeds_max), run_seed)
    assert caught.by, f"no judge noticed that {mutant.wrong}"


def assert_a_test_catches(mutant: Mutant, test: Callable[[], object]) -> None:
    undo = mutant.apply()
    try:
        with pytest.raises(AssertionError):
            test()
    finally:
        undo()
