"""The executable VS service with the real upper layers, checked by the specifications from VS upwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.actions import Action, Crashed, Recovered, VsNewView, VsReceive, VsSafe, VsSend
from cluster.names import ProcessId
from cluster.specs.checkers import Checkers
from cluster.specs.dvs import DvsSpec
from cluster.specs.invariants.dvs import DvsInvariants
from cluster.specs.invariants.replica import ReplicaInvariants
from cluster.specs.invariants.total_order import TotalOrderInvariants
from cluster.specs.replica import ReplicaSpec
from cluster.specs.total_order import TotalOrderSpec
from cluster.specs.vs import VsSpec
from cluster.specs.world import WorldSpec
from tests.cluster.vs_service import Member, VsService

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.messages import ViewMessage
    from cluster.names import View
    from cluster.settings import Settings


class Tap:
    """Stands between the VS service and the primary views of one process, and reports all calls."""

    def __init__(self, member: Member, report: Any) -> None:
        self._member, self._report = member, report
        self._primary = member.primary
        member.primary.below = self

    has_room = True

    def send(self, body: ViewMessage) -> None:
        self._report(VsSend(body))
        self._member.send(body)

    def new_view(self, view: View) -> None:
        self._report(VsNewView(view))
        self._primary.new_view(view)

    def receive(self, sender: ProcessId, body: ViewMessage) -> None:
        self._report(VsReceive(sender, body))
        self._primary.receive(sender, body)

    def safe(self, sender: ProcessId, body: ViewMessage) -> None:
        self._report(VsSafe(sender, body))
        self._primary.safe(sender, body)

    def processed_up_to(self, count: int) -> None:
        self._member.processed_up_to(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._primary, name)


class WatchedService(VsService):
    def __init__(self, names: str, settings: Settings | None = None) -> None:
        founder = ProcessId(names[0])
        total_order, dvs = TotalOrderSpec(), DvsInvariants(founder)
        self.checkers = Checkers(
            founder,
            [
                WorldSpec(),
                VsSpec(),
                DvsSpec(founder),
                total_order,
                ReplicaSpec(total_order),
                dvs,
                TotalOrderInvariants(dvs),
                ReplicaInvariants(),
            ],
        )
        super().__init__(names, settings)
        for me in self.members:
            self._tap(me)

    def trace_of(self, me: ProcessId) -> Callable[[Action], None]:
        def report(action: Action) -> None:
            self.checkers.observe(me, action)

        return report

    def _tap(self, me: ProcessId) -> None:
        member = self.members[me]
        member.primary = Tap(member, self.trace_of(me))  # type: ignore[assignment]

    def restart(self, name: str) -> None:
        me = self[name].me
        self.checkers.observe(me, Crashed(False))
        self.checkers.observe(me, Recovered(2))
        super().restart(name)
        self._tap(me)

    def look(self, me: ProcessId) -> None:
        self.checkers.after(me, self.members)  # type: ignore[arg-type]

    def look_at_all(self) -> None:
        self.checkers.after_all(self.members)  # type: ignore[arg-type]
