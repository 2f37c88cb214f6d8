"""All experiments, in the order of the paper and then beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.experiments.fixed_shares import ALWAYS_16K, ALWAYS_128K, SHARES_16K, SHARES_128K, SIZES

if TYPE_CHECKING:
    from loadgen.experiments.experiment import Experiment

CATALOGUE: tuple[Experiment, ...] = (
    SHARES_16K,
    SHARES_128K,
    ALWAYS_16K,
    ALWAYS_128K,
    SIZES,
)
BY_NAME = {experiment.name: experiment for experiment in CATALOGUE}
