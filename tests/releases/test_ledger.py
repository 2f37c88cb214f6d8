"""Release ledger: a release becomes current only with a majority, replicas stay equal, and the state is bounded."""

from __future__ import annotations

import random

from cluster import ProcessId
from qosweb.releases.ledger import (
    IN_GRACE_MAX,
    PROPOSALS_MAX,
    ActivateRelease,
    Activation,
    HoldRelease,
    KeepRule,
    ProposeRelease,
    Refused,
    RefuseRelease,
    ReleaseEntry,
    ReleaseLedger,
    encode_entry,
)

A, B, C, D, E = (ProcessId(name) for name in "abcde")


KEEP = KeepRule(10, 1000)


class World:
    """A ledger, and the members of its primary view."""

    def __init__(self, *members: ProcessId) -> None:
        self.members = members
        self.changes = 0
        self.ledger = ReleaseLedger(lambda: self.members, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def apply(self, origin: ProcessId, entry: ReleaseEntry) -> Activation | Refused | None:
        return self.ledger.apply(origin, encode_entry(entry))

    def activate(self, manifest: str, at_s: int = 0, *, keep: KeepRule = KEEP, force: bool = False) -> object:
        return self.apply(A, ActivateRelease(manifest, "text", "me", at_s, keep, is_forced=force))

    def publish(self, manifest: str, at_s: int = 0, *, keep: KeepRule = KEEP) -> object:
        for origin in self.members:
            self.apply(
                origin, ProposeRelease(manifest, 1, 10, at_s) if origin == self.members[0] else HoldRelease(manifest)
            )
        return self.activate(manifest, at_s, keep=keep)


def test_a_majority_of_the_view_has_to_hold_a_release() -> None:
    world = World(A, B, C, D)
    world.apply(A, ProposeRelease("m", 3, 30, 1))
    world.apply(E, HoldRelease("m"))  # not a member of the view
    world.apply(B, HoldRelease("m"))
    refused = world.activate("m")
    assert isinstance(refused, Refused)
    assert "2 of 4 nodes" in str(refused)
    world.apply(C, HoldRelease("m"))
    made = world.activate("m", 7)
    assert isinstance(made, Activation)
    assert (made.number, made.files, made.size, made.at_s) == (1, 3, 30, 7)
    assert world.ledger.current == made
    assert not world.ledger.state.proposals


def test_a_refusal_stops_a_release_unless_it_is_forced() -> None:
    world = World(A, B, C)
    world.apply(A, ProposeRelease("m", 1, 1, 1))
    world.apply(B, HoldRelease("m"))
    world.apply(C, RefuseRelease("m", "the disk is full"))
    refused = world.activate("m")
    assert str(refused) == "node c: the disk is full"
    assert isinstance(world.activate("m", force=True), Activation)


def test_force_does_not_replace_a_majority() -> None:
    world = World(A, B, C)
    world.apply(A, ProposeRelease("m", 1, 1, 1))
    world.apply(B, RefuseRelease("m", "no"))
    assert isinstance(world.activate("m", force=True), Refused)


def test_a_refusal_of_a_node_that_left_does_not_count() -> None:
    world = World(A, B, C)
    world.apply(A, ProposeRelease("m", 1, 1, 1))
    world.apply(B, HoldRelease("m"))
    world.apply(C, RefuseRelease("m", "no"))
    world.members = (A, B)
    assert isinstance(world.activate("m"), Activation)


def test_an_unknown_release_is_refused() -> None:
    world = World(A)
    assert isinstance(world.activate("m"), Refused)
    assert isinstance(world.apply(A, HoldRelease("m")), Refused)
    assert isinstance(world.ledger.apply(A, b"garbage"), Refused)
    assert not world.changes


def test_numbers_grow_also_by_a_rollback() -> None:
    world = World(A)
    world.publish("m1", 1)
    world.publish("m2", 2)
    made = world.activate("m1", 3)
    assert isinstance(made, Activation)
    assert (made.number, made.manifest) == (3, "m1")


def test_old_releases_go_by_count_and_by_age() -> None:
    world = World(A)
    for at in range(8):
        world.publish(f"m{at}", at, keep=KeepRule(3, 1000))
    assert [one.manifest for one in world.ledger.state.activations] == ["m4", "m5", "m6", "m7"]
    assert isinstance(world.activate("m1"), Refused)
    world.publish("late", 10_000, keep=KeepRule(10, 100))
    assert [one.manifest for one in world.ledger.state.activations] == ["m7", "late"]  # the one before always stays


def test_releases_whose_clients_still_get_them_stay() -> None:
    world = World(A)
    for at in range(8):
        world.publish(f"m{at}", 10 * at, keep=KeepRule(1, 1000, 30))
    # m3 was replaced at 40, 30 before now
    assert [one.manifest for one in world.ledger.state.activations] == ["m3", "m4", "m5", "m6", "m7"]
    for at in range(300):
        world.publish(f"n{at}", 71, keep=KeepRule(1, 1000, 30))
    assert len(world.ledger.state.activations) == IN_GRACE_MAX + 1


def test_proposals_are_bounded() -> None:
    world = World(A)
    for at in range(100):
        world.apply(A, ProposeRelease(f"m{at}", 1, 1, 1))
    assert len(world.ledger.state.proposals) == PROPOSALS_MAX


def test_replicas_stay_equal_also_from_a_snapshot() -> None:
    for seed in range(30):
        chance = random.Random(seed)
        one = World(A, B, C)
        two = World(A, B, C)
        for step in range(60):
            manifest = f"m{chance.randrange(6)}"
            choices: list[ReleaseEntry] = [
                ProposeRelease(manifest, 1, 1, step),
                HoldRelease(manifest),
                HoldRelease(manifest),
                RefuseRelease(manifest, "no"),
                ActivateRelease(manifest, "", "", step, KeepRule(3, 100, 5), is_forced=chance.random() < 0.5),
            ]
            entry = chance.choice(choices)
            origin = chance.choice([A, B, C])
            if chance.random() < 0.1:
                one.members = two.members = tuple(chance.sample([A, B, C], chance.randint(1, 3)))
            if chance.random() < 0.1:
                two.ledger.restore(one.ledger.snapshot())
            assert repr(one.apply(origin, entry)) == repr(two.apply(origin, entry))
            assert one.ledger.snapshot() == two.ledger.snapshot()
        assert one.ledger.current is None or one.ledger.current.number >= 1


def test_the_empty_ledger() -> None:
    world = World(A)
    assert world.ledger.is_empty
    world.publish("m")
    assert world.ledger.current is not None
    world.ledger.restore(b"")
    assert not world.ledger.state.activations
