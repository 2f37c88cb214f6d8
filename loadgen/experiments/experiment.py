"""Interface of an experiment: its name, its source, what it has to show, and how to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from loadgen.experiments.findings import ExperimentFindings
    from loadgen.experiments.layout import Layout
    from loadgen.experiments.workbench import Workbench


class Experiment(Protocol):
    """Description of an experiment, and ``carry_out``, which runs and judges it."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """The paper's figure or table, or "beyond the paper"."""

    @property
    def title(self) -> str: ...

    def criterion(self, *, quick: bool) -> str:
        """The criterion, in sentences; a quick run has looser limits."""

    @property
    def printed(self) -> str:
        """The result that the paper reports, in a sentence; empty if it reports none."""

    @property
    def layout(self) -> Layout: ...

    def carry_out(self, bench: Workbench) -> ExperimentFindings: ...
