"""List of all experiments: those of the paper in its order, then the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadgen.experiments.scenarios.contention import CONTENTION
from loadgen.experiments.scenarios.fixed_shares import ALWAYS_16K, ALWAYS_128K, SHARES_16K, SHARES_128K, SIZES
from loadgen.experiments.scenarios.flash_crowd import FLASH_CROWD
from loadgen.experiments.scenarios.full_resource import LINE, PROCESSOR
from loadgen.experiments.scenarios.partition import PARTITION
from loadgen.experiments.scenarios.peers import PEERS
from loadgen.experiments.scenarios.response import RESPONSE
from loadgen.experiments.scenarios.scale_out import SCALE_OUT
from loadgen.experiments.scenarios.successive_failures import SUCCESSIVE_FAILURES
from loadgen.experiments.scenarios.throughput import THROUGHPUT
from loadgen.experiments.scenarios.upstream import UPSTREAM, UPSTREAM_FAILING

if TYPE_CHECKING:
    from loadgen.experiments.experiment import Experiment

CATALOGUE: tuple[Experiment, ...] = (
    SHARES_16K,
    SHARES_128K,
    ALWAYS_16K,
    ALWAYS_128K,
    SIZES,
    FLASH_CROWD,
    CONTENTION,
    THROUGHPUT,
    RESPONSE,
    SCALE_OUT,
    PARTITION,
    SUCCESSIVE_FAILURES,
    PEERS,
    UPSTREAM,
    UPSTREAM_FAILING,
    PROCESSOR,
    LINE,
)
BY_NAME = {experiment.name: experiment for experiment in CATALOGUE}
