"""One simulation run: a fault phase, healing, then a liveness check.

Live means: one primary view of all running processes, an outcome for each of their submissions, and equal replicas,
within bounded virtual time. If so many nodes were lost for good that no view of the running ones may be primary (by the
primary view rule, read from the disks), liveness is not required.
Above: explore, shrink.  Below: plan, world.
"""

from __future__ import annotations

from traceback import extract_tb
from typing import TYPE_CHECKING

import msgspec

from cluster.sim.network import FIXED
from cluster.sim.world import FrameListener, NotReached, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.names import ProcessId, View
    from cluster.sim.faults import AnyFault
    from cluster.sim.node import ProcessFactory
    from cluster.sim.plan import Operation, RunPlan, Submission

VIEW_WITHIN = 0.5  # virtual seconds: much longer than a view change takes once the change is detected
SILENT_SHARE = 0.4  # share of final crashes without a disconnect
LIVE_WITHIN = 40.0  # virtual seconds after healing
QUIET = 1.5  # final virtual seconds without any action: the group is not only complete but quiescent


class RunFailure(msgspec.Struct, frozen=True):
    """Why a run failed."""

    kind: str  # the violated specification, "liveness", or the name of an exception
    step: int
    text: str

    def line(self, seed: int, options: str = "") -> str:
        first = self.text.partition("\n")[0]
        return (
            f"SEED={seed} {self.kind} event {self.step}: {first}; "
            f"replay: python -m cluster sim --seed {seed}{options} --narrate"
        )


class RunResult(msgspec.Struct, frozen=True):
    """Outcome and coverage of a run."""

    seed: int
    failure: RunFailure | None
    steps: int
    events: int
    seconds: float  # virtual seconds
    sometimes: dict[str, int]
    clauses: dict[str, int]


class RunJudge:
    """A watcher that raises on a violation. This base class checks nothing."""

    def watch(self, world: World) -> None:
        """Set the world to check."""

    def step(self, process: ProcessId, action: Action) -> None: ...

    def after(self, world: World, process: ProcessId) -> None: ...

    def finish(self, world: World, live: bool) -> None:
        """The run is over; `live`: it ended with a complete group."""

    def in_time(self, last_event: float, members: list[ProcessId], *, detection: float, latency: float) -> None:
        """Check bounded view change time: the last change in a quiet network was at `last_event` and left `members`."""

    def clauses(self) -> dict[str, int]:
        """How often each clause was exercised."""
        return {}

    def verdict(self, _error: Exception) -> str | None:
        """The name of the specification that this exception reports as violated, or None."""
        return None


class RunClients:
    """Clients of a service above the total order. This base class has none."""

    def start(self, world: World) -> None:
        """The nodes are there: schedule the requests of the fault phase."""

    def use_stable_view(self, world: World) -> None:
        """The group is complete and at rest again: make requests, and judge their outcomes."""


def run(
    plan: RunPlan,
    make: ProcessFactory,
    judge: RunJudge | None = None,
    listener: FrameListener | None = None,
    clients: RunClients | None = None,
) -> RunResult:
    judge, clients = judge or RunJudge(), clients or RunClients()
    world = World(
        make,
        seed=plan.seed,
        settings=plan.settings,
        delays=plan.delays,
        watcher=judge,
        listener=listener,
        coded=plan.coded,
    )
    judge.watch(world)
    return result_of(plan.seed, world, judge, lambda: _play(plan, world, judge, clients))


def result_of(seed: int, world: World, judge: RunJudge, play: Callable[[], None]) -> RunResult:
    """Play a run to its end, and sum it up."""
    failure = None
    try:
        play()
    except Exception as error:  # any exception of a process is a finding
        failure = _failure(error, judge, world)
    return RunResult(
        seed=seed,
        failure=failure,
        steps=world.steps,
        events=world.events.handled,
        seconds=world.events.now,
        sometimes={what: count for what, count in world.sometimes.items() if count},
        clauses=judge.clauses(),
    )


def _failure(error: Exception, judge: RunJudge, world: World) -> RunFailure:
    spec = judge.verdict(error)
    if spec is not None:
        return RunFailure(spec, world.steps, str(error))
    if isinstance(error, NotReached):
        return RunFailure("liveness", world.steps, str(error))
    frames = extract_tb(error.__traceback__)
    where = "\n".join(f"  {frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:])
    return RunFailure(type(error).__name__, world.steps, f"{error}\n{where}")


def schedule(plan: RunPlan, world: World) -> None:
    """Add and start the nodes of a plan, and schedule its faults and submissions."""
    founder = plan.names[0]
    for name in plan.names:
        world.add(name, contacts=_contacts(plan, name, founder), founds=name == founder)
    for name in plan.first:
        world.nodes[name].start()
    for fault in plan.faults:
        world.events.at(fault.at, _begin, fault, world)
    for submission in plan.submissions:
        world.events.at(submission.at, _submit, submission, world)
    for operation in plan.operations:
        world.events.at(operation.at, request_operation, operation, world)


def _play(plan: RunPlan, world: World, judge: RunJudge, clients: RunClients) -> None:
    schedule(plan, world)
    clients.start(world)
    world.events.run_until(plan.lasts)
    heal(world)
    live = wait_until_live(world)
    judge.finish(world, live)
    if live:
        clients.use_stable_view(world)
    if live and len(world.running()) > 1:
        last_change(world, judge)


def _contacts(plan: RunPlan, name: str, founder: str) -> str:
    """The founder; a node that joins late knows all others, since the founder may be gone."""
    if name == founder:
        return ""
    return founder if name in plan.first else plan.first


def _begin(fault: AnyFault, world: World) -> None:
    fault.begin(world)
    fault.end_later(world)


def _submit(submission: Submission, world: World) -> None:
    world.broadcast(submission.node, submission.body)


def request_operation(operation: Operation, world: World) -> None:
    world.request(operation.node, operation.body)


def heal(world: World) -> None:
    """End all faults and restart crashed nodes, except those that left."""
    world.remark("everything heals")
    world.calm = True
    world.ambushes.clear()
    world.network.mend_all()
    world.network.delays = msgspec.structs.replace(world.network.delays, spike_share=0.0)
    for node in world.nodes.values():
        node.input_cost = node.write_cost = node.write_time = 0.0
        node.crash_after = -1
        node.resume()
        if node.leaving:
            node.gone = True
            node.crash(disk_lost=True)
        node.start()
    _introduce(world)


def _introduce(world: World) -> None:
    """Give a node that knows only departed nodes, and that no node knows, new contacts, as an operator would."""
    running = world.running()
    for node in running:
        others = {other.name for other in running if other is not node}
        if not node.known & others and not any(node.name in other.known for other in running if other is not node):
            for name in sorted(others):
                node.learn(name)


def wait_until_live(world: World) -> bool:
    """Whether the group is complete and quiescent again; raises if the rules allow that and it is not."""
    limit = world.events.now + LIVE_WITHIN
    try:
        while True:
            left = limit - world.events.now
            world.run_until(lambda: live(world), within=left, what="one primary view of all")
            world.settle(QUIET, within=max(left, QUIET))
            if live(world):
                return True
            world.sometimes["the group fell apart again after it was whole"] += 1
    except NotReached as late:
        if allowed(world):
            raise NotReached(f"{late}\n{state_of(world)}") from None
        world.sometimes["no primary view is allowed any more"] += 1
        return False


def last_change(world: World, judge: RunJudge) -> None:
    """Crash one more node, in a quiet network during a multicast: the others must form one view in time.

    If the crash is silent, no connection closes and the others can only rely on the missing heartbeats.
    """
    chance = world.chance.fork("last change")
    silent = world.chance.fork("silent last change").hits(SILENT_SHARE)
    world.network.delays = FIXED
    world.settle(QUIET)
    if silent:
        world.sometimes["the last crash is silent"] += 1
        world.run_until(
            lambda: not any(node.stands_still for node in world.running()), within=LIVE_WITHIN, what="clocks"
        )
    names = [node.name for node in world.running()]
    victim = chance.choice(names)
    world.remark(f"in a quiet network, {victim} crashes in the middle of a broadcast")
    for name in names:
        world.broadcast(name, b"last words of " + name.encode())
    node = world.nodes[victim]
    node.silent_share = 1.0 if silent else 0.0
    world.crash_after(victim, chance.below(8)).broadcast(victim, b"the very last")
    if node.process is not None:
        node.crash_after = -1
        world.run(FIXED.base * chance.below(4)).crash(victim, silent=silent)
    last_event = world.events.now
    detection = world.settings.suspect_max if silent else FIXED.notice_max
    world.run(VIEW_WITHIN + (detection if silent else 0.0))
    judge.in_time(last_event, [node.pid for node in world.running()], detection=detection, latency=FIXED.base)


def live(world: World) -> bool:
    nodes = world.running()
    return (
        world.has_primary([node.name for node in nodes])
        and not any(node.pending or node.requested for node in nodes)
        and len({node.machine.digest() for node in nodes}) == 1
    )


def allowed(world: World) -> bool:
    """Whether the running processes may form a primary view, according to their disks."""
    nodes = world.running()
    images = [node.disk.read() for node in nodes]
    acts = [image.act for image in images if image.act is not None]
    if not acts:
        return False
    act = max(acts, key=lambda view: view.id)
    in_use = [act, *(view for image in images for view in image.amb if view.id > act.id)]
    members = {node.pid for node in nodes}
    return all(majority(members, view) for view in in_use)


def majority(members: set[ProcessId], view: View) -> bool:
    """Whether `members` has more than half of the view, or half including its lowest member."""
    common = len(members.intersection(view.members))
    return 2 * common > len(view.members) or (2 * common == len(view.members) and min(view.members) in members)


def state_of(world: World) -> str:
    lines: list[str] = []
    for node in world.nodes.values():
        image = node.disk.read()
        lines.append(
            f"  {node.pid}: {'up' if node.process else 'down'}, connected to {' '.join(map(str, node.connections))}; "
            f"primary {node.primary}; act {image.act}; amb {' '.join(map(str, image.amb))}; "
            f"{len(node.pending)} submissions and {len(node.requested)} requests open; "
            f"history {node.machine.digest()[:12]}"
        )
    return "\n".join(lines)
