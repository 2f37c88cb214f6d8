"""WORLD: specification of crashes: a crashed process takes no step until it recovers.

No paper has this specification: the papers' processes never stop, and section 6.4 of Khazan's thesis only sketches
recovery. A process that lost its disk never comes back under its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.actions import Action, Crashed, Recovered
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.names import ProcessId


class WorldSpec(Spec):
    NAME = "WORLD"

    def __init__(self) -> None:
        super().__init__()
        self.down: set[ProcessId] = set()
        self.lost: set[ProcessId] = set()

    def observe(self, at: ProcessId, action: Action) -> None:
        if type(action) is not Recovered:
            self.any_action_pre(action, at)
        super().observe(at, action)

    def any_action_pre(self, _act: Action, at: ProcessId) -> None:
        self.require(at not in self.down, "a process that crashed takes no step before it recovers")

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        self.down.add(at)
        if act.disk_lost:
            self.branch("crash: with the disk")
            self.lost.add(at)
        else:
            self.branch("crash: the disk is kept")

    def recovered_pre(self, _act: Recovered, at: ProcessId) -> None:
        self.require(at not in self.lost, "recover: the disk is still there")

    def recovered_eff(self, _act: Recovered, at: ProcessId) -> None:
        self.down.discard(at)
