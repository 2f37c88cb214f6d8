"""Fixed scenarios whose narration is compared with golden files.

Every frame takes one millisecond, and the only randomness is what the processes draw themselves. The part of a scenario
before its `yield` is not narrated.
Above: the command line, tests.  Below: world, narrate, run (for the judge interface).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster.settings import Settings
from cluster.sim.narrate import Detail, Narrator
from cluster.sim.run import RunJudge, live
from cluster.sim.world import FrameListener, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.sim.node import ProcessFactory

    Story = Iterator[None]


def founding(world: World) -> Story:
    """One node founds a group and is its first primary view; then two others join it."""
    yield
    world.start("a").run(1.0)
    world.join("b").run(1.0)
    world.join("c").settle()


def broadcast(world: World) -> Story:
    """One broadcast in a group of three: a label, a slot, acknowledgements, safe, confirm, delivery everywhere."""
    world.start("abc").settle()
    yield
    world.remark("b broadcasts x")
    world.broadcast("b", b"x").settle()


def joining(world: World) -> Story:
    """A node joins a group that has a history, and gets it."""
    world.start("ab").broadcast("a", b"x").broadcast("b", b"y").settle()
    yield
    world.join("c").settle()


def leaving(world: World) -> Story:
    """A node leaves, and its last entry is delivered before it does."""
    world.start("abc").settle()
    yield
    world.broadcast("c", b"last").leave("c").settle()


def crash(world: World) -> Story:
    """A node crashes, the others go on, it comes back from its disk."""
    world.start("abc").broadcast("c", b"x").settle()
    yield
    world.crash("c").settle()
    world.broadcast("a", b"y").settle()
    world.restart("c").settle()


def partition(world: World) -> Story:
    """Five nodes fall apart into three and two. The three go on; what the two submit waits for the merge."""
    world.start("abcde").settle()
    yield
    world.partition("abc", "de").settle()
    world.broadcast("a", b"x").broadcast("d", b"y").settle()
    world.heal().settle()


def partition_in_exchange(world: World) -> Story:
    """A partition in the middle of the exchange of states: a view is attempted, but not established by all."""
    world.start("abc").broadcast("a", b"x").settle()
    world.partition("ab", "c").settle()
    yield
    world.upon("DvsNewView", lambda: world.partition("a", "bc")).heal().settle()
    world.broadcast("b", b"y").settle()
    world.heal().settle()


def falling(world: World) -> Story:
    """Five nodes fall one at a time, down to two: a majority of five would have stopped at three."""
    world.start("abcde").settle()
    yield
    for name in "edc":
        world.crash(name).settle()
    world.broadcast("b", b"still here").settle()


def even_split(world: World) -> Story:
    """Four nodes fall apart into two and two: the half with the lowest of them goes on."""
    world.start("abcd").settle()
    yield
    world.partition("ab", "cd").settle()
    world.broadcast("a", b"x").broadcast("c", b"y").settle()
    world.heal().settle()


def total_restart(world: World) -> Story:
    """All crash, and come back from their disks with everything they had."""
    world.start("abc").broadcast("a", b"x").broadcast("b", b"y").settle()
    yield
    for name in "abc":
        world.crash(name)
    world.run(1.0)
    for name in "cab":
        world.restart(name)
    world.settle()


def laggard(world: World) -> Story:
    """A node was away for so long that the others dropped what it lacks: it gets a snapshot."""
    world.start("abc").settle()
    world.crash("c").settle()
    for i in range(3 * LAGGARD_SNAPSHOTS):
        world.broadcast("ab"[i % 2], b"%d" % i)
    world.settle()
    yield
    world.restart("c").settle()


def interim_operation(world: World) -> Story:
    """One operation of the interim service in a view of three: a logical time, the time of the others, the response."""
    world.start("abc").settle()
    yield
    world.remark("b requests x")
    world.request("b", b"x").settle()


def interim_partition(world: World) -> Story:
    """Five nodes fall apart into three and two. Both sides apply operations. When they meet, two states are merged."""
    world.start("abcde").settle()
    world.request("a", b"before").settle()
    yield
    world.partition("abc", "de").settle()
    world.request("b", b"of three").request("e", b"of two").settle()
    world.heal().settle()
    world.request("d", b"after").settle()


def interim_interrupted_merge(world: World) -> Story:
    """Another partition interrupts a merge. Who was synchronised stays so; the rest is merged when all meet again."""
    world.start("abcd").settle()
    world.partition("ab", "cd").settle()
    world.request("a", b"x").request("c", b"y").settle()
    yield
    world.upon("InterimView", lambda: world.partition("a", "bcd")).heal()
    world.request("b", b"during the merge").settle()
    world.request("d", b"z").settle()
    world.heal().settle()


def interim_restart(world: World) -> Story:
    """A node crashes and comes back with the operations on its disk; the others have gone on meanwhile."""
    world.start("abc").request("c", b"x").settle()
    yield
    world.crash("c").settle()
    world.request("a", b"y").settle()
    world.restart("c").settle()


def data_query(world: World) -> Story:
    """An update and queries of the data service in a view of three: the order decides who answers."""
    world.start("abc").settle()
    yield
    world.remark("a client of b updates x")
    world.broadcast("b", b"x").settle()
    world.remark("a client of a asks, and has seen the update")
    world.query("a", b"q", seen=world.position("b")).settle()
    world.query("a", b"r").settle()


def data_reissue(world: World) -> Story:
    """The member that has to answer a query crashes. The query is issued again in the next view."""
    world.start("abc").broadcast("a", b"x").settle()
    yield
    world.remark("a client of c asks; b has to answer, and crashes")
    world.upon("VsReceive", lambda: world.crash("b")).query("c", b"q").settle()


def data_minority(world: World) -> Story:
    """A minority answers queries from the state that it has, and applies no updates until the partition heals."""
    world.start("abcde").broadcast("a", b"x").settle()
    yield
    world.partition("abc", "de").settle()
    world.broadcast("a", b"y").broadcast("d", b"z").settle()
    world.remark("clients of d and e ask; they have seen x")
    world.query("d", b"p", seen=world.position("d")).query("e", b"q", seen=world.position("e")).settle()
    world.remark("a client that has seen y comes to e, and waits")
    world.query("e", b"r", seen=world.position("a")).settle()
    world.heal().settle()


def data_merge(world: World) -> Story:
    """Two members meet without a majority: only the one that is ahead answers a client that has seen its state."""
    world.start("abcde").settle()
    world.partition("abcd", "e").broadcast("a", b"x").settle()
    seen = world.position("d")
    yield
    world.partition("abc", "de").settle()
    world.remark("clients of e ask: one has seen the state of d")
    world.query("e", b"p").query("e", b"q").query("e", b"r", seen=seen).settle()
    world.heal().settle()


LAGGARD_SNAPSHOTS = 20  # positions between two snapshots in the scenarios
STORIES: dict[str, Callable[[World], Story]] = {
    "founding": founding,
    "broadcast": broadcast,
    "joining": joining,
    "leaving": leaving,
    "crash": crash,
    "partition": partition,
    "partition-in-exchange": partition_in_exchange,
    "falling": falling,
    "even-split": even_split,
    "total-restart": total_restart,
    "laggard": laggard,
    "interim-operation": interim_operation,
    "interim-partition": interim_partition,
    "interim-interrupted-merge": interim_interrupted_merge,
    "interim-restart": interim_restart,
    "data-query": data_query,
    "data-reissue": data_reissue,
    "data-minority": data_minority,
    "data-merge": data_merge,
}


def has_interim_service(name: str) -> bool:
    """Whether the processes of this scenario need the interim service."""
    return name.startswith("interim-")


def has_data_service(name: str) -> bool:
    """Whether the processes of this scenario need the data service."""
    return name.startswith("data-")


def narrate_story(
    name: str,
    make: ProcessFactory,
    write: Callable[[str], None],
    detail: Detail = Detail.CONVERSATION,
    judge: RunJudge | None = None,
) -> World:
    """Narrate one scenario line by line and return its final world. The judge raises on a violation."""
    write(f"# {STORIES[name].__doc__}")
    narrator = Narrator(write, detail)
    world = play_story(name, make, narrator, judge)
    narrator.flush()
    return world


class StoryListener(FrameListener, Protocol):
    """A listener that ignores all events while it is muted."""

    muted: bool


def play_story(name: str, make: ProcessFactory, listener: StoryListener, judge: RunJudge | None = None) -> World:
    """Run one scenario, with the listener muted in its first part, and return its final world."""
    judge = judge or RunJudge()
    world = World(make, settings=Settings(snapshot_every=LAGGARD_SNAPSHOTS), watcher=judge, listener=listener)
    judge.watch(world)
    telling = STORIES[name](world)
    listener.muted = True
    next(telling)
    listener.muted = False
    for _ in telling:
        raise AssertionError("a scenario has exactly one yield")
    judge.finish(world, live(world))
    return world
