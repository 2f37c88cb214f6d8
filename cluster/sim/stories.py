"""The main stories of a group, told the same way every time: golden conversations for reading and comparing.

Every frame takes a millisecond here, and nothing is left to chance but what the processes draw for themselves.
Above: the command line, tests.  Below: world, narrate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.settings import DEFAULT
from cluster.sim.narrate import Narrator
from cluster.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.sim.node import Make


def founding(world: World) -> None:
    """One node founds a group and is its first primary view; two others join it."""
    world.start("abc").settle()


def broadcast(world: World) -> None:
    """One broadcast in a group of three: label, slot, acknowledgements, safe, confirm, delivery everywhere."""
    world.start("abc").settle()
    world.remark("b broadcasts x")
    world.broadcast("b", b"x").settle()


def joining(world: World) -> None:
    """A node joins a group that has a history, and gets it."""
    world.start("ab").broadcast("a", b"x").broadcast("b", b"y").settle()
    world.join("c").settle()


def leaving(world: World) -> None:
    """A node leaves, and its last entry is delivered before it does."""
    world.start("abc").settle()
    world.broadcast("c", b"last").leave("c").settle()


def crash(world: World) -> None:
    """A node crashes, the others go on, it comes back from its disk."""
    world.start("abc").broadcast("c", b"x").settle()
    world.crash("c").settle()
    world.broadcast("a", b"y").settle()
    world.restart("c").settle()


def partition(world: World) -> None:
    """Five nodes fall apart into three and two. The three go on; what the two submit waits for the merge."""
    world.start("abcde").settle()
    world.partition("abc", "de").settle()
    world.broadcast("a", b"x").broadcast("d", b"y").settle()
    world.heal().settle()


def partition_in_exchange(world: World) -> None:
    """A partition in the middle of the exchange of states: the view was attempted, but is never established."""
    world.start("abc").broadcast("a", b"x").settle()
    world.partition("ab", "c").settle()
    world.upon("DvsNewView", lambda: world.partition("a", "bc")).heal().settle()
    world.broadcast("b", b"y").settle()
    world.heal().settle()


def falling(world: World) -> None:
    """Five nodes fall one at a time, down to two: a majority of five would have stopped at three."""
    world.start("abcde").settle()
    for name in "edc":
        world.crash(name).settle()
    world.broadcast("b", b"still here").settle()


def even_split(world: World) -> None:
    """Four nodes fall apart into two and two: the half with the lowest of them goes on."""
    world.start("abcd").settle()
    world.partition("ab", "cd").settle()
    world.broadcast("a", b"x").broadcast("c", b"y").settle()
    world.heal().settle()


def total_restart(world: World) -> None:
    """All crash, and come back from their disks with everything they had."""
    world.start("abc").broadcast("a", b"x").broadcast("b", b"y").settle()
    for name in "abc":
        world.crash(name)
    world.run(1.0)
    for name in "cab":
        world.restart(name)
    world.settle()


def laggard(world: World) -> None:
    """A node was away for so long that the others dropped what it lacks: it gets a snapshot."""
    world.start("abc").settle()
    world.crash("c").settle()
    for i in range(3 * LAGGARD_SNAPSHOTS):
        world.broadcast("ab"[i % 2], b"%d" % i)
    world.settle()
    world.restart("c").settle()


LAGGARD_SNAPSHOTS = 20  # positions between two snapshots in the stories
STORIES: dict[str, Callable[[World], None]] = {
    story.__name__.replace("_", "-"): story
    for story in (
        founding, broadcast, joining, leaving, crash, partition, partition_in_exchange, falling, even_split,
        total_restart, laggard,
    )
}  # fmt: skip


def tell(name: str, make: Make, write: Callable[[str], None]) -> None:
    """Tell one story, line by line."""
    story = STORIES[name]
    write(f"# {story.__doc__}")
    settings = type(DEFAULT)(snapshot_every=LAGGARD_SNAPSHOTS)
    story(World(make, settings=settings, listener=Narrator(write)))


def write_all(folder: Path, make: Make) -> list[Path]:
    """Write every story to a file of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name in STORIES:
        lines: list[str] = []
        tell(name, make, lines.append)
        path = folder / f"{name}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(path)
    return paths
