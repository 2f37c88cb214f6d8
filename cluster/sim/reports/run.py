"""One simulation run of reports: faults and bottlenecks, healing, then all reports everywhere, judged by FIFO_SRB."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.names import ProcessId
from cluster.sim.reports.plan import ReportsPlan, make_reports_plan
from cluster.sim.reports.reporting_process import Pace, ReportingProcess
from cluster.sim.run import LIVE_WITHIN, RunJudge, RunResult, heal, result_of, schedule
from cluster.sim.world import World
from cluster.specs.checkers import Checkers
from cluster.specs.services.reports import ReportsSpec
from cluster.specs.spec import Violation
from cluster.specs.world import WorldSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource
    from cluster.settings import Settings
    from cluster.sim.explore import SeedTask
    from cluster.sim.history_machine import History
    from cluster.sim.reports.plan import NarrowLink, SlowReceiver


class ReportsJudge(RunJudge):
    """FIFO_SRB, following one run."""

    def __init__(self, founder: ProcessId) -> None:
        self.spec = ReportsSpec()
        self._checkers = Checkers(founder, [WorldSpec(), self.spec])

    def step(self, process: ProcessId, action: Action) -> None:
        self._checkers.observe(process, action)

    def clauses(self) -> dict[str, int]:
        return {f"{self.spec.NAME}: {clause}": count for clause, count in self.spec.coverage.items()}

    def verdict(self, error: Exception) -> str | None:
        return error.spec if isinstance(error, Violation) else None


class ReportsWorld(World):
    """A world of processes with reports."""

    def __init__(self, plan: ReportsPlan, judge: RunJudge) -> None:
        super().__init__(
            self._make_process,
            seed=plan.base.seed,
            settings=plan.base.settings,
            delays=plan.base.delays,
            watcher=judge,
        )
        self._report_settings = plan.settings
        self.paces = {name: Pace() for name in plan.base.names}

    def _make_process(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: History,
        chance: RandomSource,
        trace: Callable[[Action], None] | None,
    ) -> ReportingProcess:
        return ReportingProcess(
            me, settings, image, machine, chance, trace,
            report_settings=self._report_settings, pace=self.paces[me.name], sometimes=self.sometimes,
        )  # fmt: skip

    def processes(self) -> dict[ProcessId, ReportingProcess]:
        return {node.pid: cast("ReportingProcess", node.process) for node in self.running()}

    @property
    def is_complete(self) -> bool:
        """Whether all running processes share one view, and no report is on its way."""
        found = self.processes()
        members = tuple(sorted(found))
        return all(
            process.stack.endpoint.current_view.members == members
            and process.reports.view == process.stack.endpoint.current_view
            and process.is_at_rest
            and all(process.reports.I[peer].greeted for peer in members if peer != me)
            for me, process in found.items()
        )


def play_reports(plan: ReportsPlan) -> RunResult:
    """Run a plan."""
    judge = ReportsJudge(ProcessId(plan.base.names[0]))
    world = ReportsWorld(plan, judge)
    return result_of(plan.base.seed, world, judge, lambda: _play(plan, world, judge))


def run_reports_task(task: SeedTask) -> RunResult:
    """Run the seed of a task."""
    return play_reports(make_reports_plan(task.seed, task.nodes_min, task.nodes_max))


def _play(plan: ReportsPlan, world: ReportsWorld, judge: ReportsJudge) -> None:
    schedule(plan.base, world)
    for bottleneck in plan.bottlenecks:
        world.events.at(bottleneck.at, _begin, bottleneck, world)
    world.events.run_until(plan.base.lasts)
    for pace in world.paces.values():
        pace.consume_s = 0.0
        pace.bytes_per_s.clear()
    heal(world)
    world.run_until(lambda: world.is_complete, within=LIVE_WITHIN, what="all reports everywhere")
    judge.spec.judge_end({pid: process.reports.me.life for pid, process in world.processes().items()})


def _begin(bottleneck: SlowReceiver | NarrowLink, world: ReportsWorld) -> None:
    world.sometimes[type(bottleneck).__name__] += 1
    bottleneck.begin(world.paces)
    world.events.after(bottleneck.lasts, bottleneck.end, world.paces)
