"""Primary views, total order and replica over an executable VS service, stopped at every message boundary."""

from __future__ import annotations

import pytest

from cluster.settings import Settings
from tests.cluster.vs_service import VsService

PARTITIONS = (("abc",), ("ab", "c"), ("ac", "b"), ("bc", "a"), ("a", "b", "c"))


def founded(names: str = "abc", settings: Settings | None = None) -> VsService:
    service = VsService(names, settings)
    service.views(names).run()
    return service


def one_history(service: VsService) -> list[bytes]:
    """The longest history. Every other one must be a prefix of it, and no entry occurs twice."""
    histories = sorted((member.machine.entries for member in service.members.values()), key=len)
    for history in histories:
        assert history == histories[-1][: len(history)]
    assert len(set(histories[-1])) == len(histories[-1])
    return histories[-1]


def test_a_single_founder_orders_entries() -> None:
    service = founded("a")
    service["a"].replica.submit(b"x")
    service.run()
    assert service["a"].machine.entries == [b"x"]


def test_joiners_cannot_found_a_primary_view() -> None:
    service = VsService("abc")
    service.views("bc").run()
    service["b"].replica.submit(b"x")
    service.run()
    assert service["b"].replica.primary is None
    service.views("abc").run()
    assert service["c"].machine.entries == [b"x"]


def test_entries_are_delivered_everywhere_in_one_order() -> None:
    service = founded()
    for i in range(10):
        for name in "abc":
            service[name].replica.submit(f"{name}{i}".encode())
    service.run()
    assert len(one_history(service)) == 30
    assert all(len(member.machine.entries) == 30 for member in service.members.values())
    assert all(member.replica.unresolved == 0 for member in service.members.values())


def test_a_minority_delivers_nothing_and_catches_up() -> None:
    service = founded("abcde")
    service.views("abc", "de")
    service.run()
    service["a"].replica.submit(b"x")
    service["d"].replica.submit(b"y")
    service.run()
    assert service["b"].machine.entries == [b"x"]
    assert service["e"].machine.entries == []
    service.views("abcde").run()
    assert service["e"].machine.entries == one_history(service) == [b"x", b"y"]


def test_five_members_fail_one_by_one_down_to_the_lowest_rank() -> None:
    service = founded("abcde")
    for group in ("abcd", "abc", "ab", "a"):
        service.views(group).run()
        service["a"].replica.submit(group.encode())
        service.run()
    assert service["a"].machine.entries == [b"abcd", b"abc", b"ab", b"a"]


def test_the_half_without_the_lowest_rank_waits() -> None:
    service = founded("abcd")
    service.views("ab", "cd").run()
    assert service["a"].replica.primary is not None
    assert service["c"].replica.primary is None


def test_a_lagging_member_gets_a_snapshot() -> None:
    service = founded("abc", Settings(snapshot_every=10))
    service.views("ab", "c").run()
    for i in range(100):
        service["a"].replica.submit(b"%d" % i)
        service.run()
    assert service["a"].total_order.base > 50
    assert len(service["a"].total_order.log) < 50
    service["c"].replica.submit(b"late")
    service.views("abc").run()
    assert len(one_history(service)) == 101
    assert len(service["c"].machine.entries) == 101
    assert service["c"].replica.unresolved == 0


def test_an_entry_that_was_ordered_without_its_origin_is_not_ordered_again() -> None:
    """Its origin comes back after the entry was truncated: `highest` identifies it."""
    service = founded("abc", Settings(snapshot_every=5))
    service["c"].replica.submit(b"mine")
    service["a"].step()  # a has it, c will not learn of it
    service["b"].step()
    service.views("ab", "c").run()
    for i in range(40):
        service["a"].replica.submit(b"%d" % i)
        service.run()
    assert service["a"].machine.entries.count(b"mine") == 1
    service.views("abc").run()
    assert one_history(service).count(b"mine") == 1
    assert service["c"].replica.unresolved == 0


def test_all_restart_from_disk() -> None:
    service = founded("abc", Settings(snapshot_every=7))
    for i in range(20):
        service["b"].replica.submit(b"%d" % i)
    service.run()
    before = one_history(service)
    for name in "abc":
        service.restart(name)
    service.views("abc").run()
    service["c"].replica.submit(b"after")
    service.run()
    assert one_history(service) == [*before, b"after"]
    assert all(len(member.machine.entries) == 21 for member in service.members.values())


@pytest.mark.parametrize("first", PARTITIONS, ids="|".join)
@pytest.mark.parametrize("second", PARTITIONS, ids="|".join)
def test_repartition_at_every_message_boundary(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """Views change again after every possible number of steps of the exchange; then all merge."""
    for restart in ("", "a", "c"):
        steps = 0
        while True:
            service = founded()
            for name in "abc":
                service[name].replica.submit(name.encode())
            service.run(5)
            service.views(*first)
            taken = service.run(steps, first=steps)
            confirmed = max((m.machine.entries for m in service.members.values()), key=len)[:]
            if restart:
                service.restart(restart)
            service.views(*second).run(steps % 17)
            service.views("abc").run()
            history = one_history(service)
            assert history[: len(confirmed)] == confirmed
            assert sorted(history) == [b"a", b"b", b"c"]
            assert all(len(m.machine.entries) == 3 for m in service.members.values())
            if taken < steps:
                break
            steps += 1
        assert steps > 5
