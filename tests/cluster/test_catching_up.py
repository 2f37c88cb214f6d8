"""Catching up: a returning member delivers missed entries in steps, in order, once and completely."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.settings import Settings
from tests.cluster.vs_service import Member, VsService

if TYPE_CHECKING:
    from cluster.names import View

STEP = 16
MISSED = 4_000
SETTINGS = Settings(snapshot_every=100_000, report_len_max=STEP)


def comes_back(settings: Settings = SETTINGS) -> tuple[VsService, list[bytes]]:
    """A group whose c was away while the others ordered thousands of entries; c has just established the view."""
    service = VsService("abc", settings)
    service.views("abc").run()
    service.views("ab", "c").run()
    missed = [b"%d" % i for i in range(MISSED)]
    for first in range(0, MISSED, 100):
        service["a" if first % 200 else "b"].replica.submit_all(missed[first : first + 100])
        service.run()
    c = service.views("abc")["c"]
    while not c.total_order.is_behind:
        assert service.run(1) == 1
    return service, missed


def told(member: Member) -> View | None:
    """The primary view that the application was told."""
    return member.replica.primary


def arrears(member: Member) -> int:
    return member.total_order.next_confirm - member.total_order.next_report


def others_run(service: VsService) -> None:
    """Runs all but c, until nothing is left to do without it."""
    while any(service[name].step() for name in "ab"):
        pass


def test_every_step_is_small_and_the_application_is_told_at_the_end() -> None:
    service, missed = comes_back()
    c = service["c"]
    assert c.machine.entries == missed[: len(c.machine.entries)]
    assert len(c.machine.entries) <= STEP
    steps = 0
    while told(c) is None:
        before = len(c.machine.entries)
        c.total_order.tick()
        steps += 1
        assert len(c.machine.entries) - before <= STEP
        assert c.total_order.next_deadline() <= c.context.now or told(c) is not None
    assert c.machine.entries == missed
    assert steps >= MISSED // STEP - 1
    service.run()
    assert [member.machine.entries for member in service.members.values()] == [missed] * 3


def test_entries_ordered_meanwhile_follow_and_do_not_grow_the_backlog() -> None:
    service, missed = comes_back()
    c = service["c"]
    left = arrears(c)
    more = [b"more %d" % i for i in range(300)]
    for entry in more:
        service["a"].replica.submit(entry)
        others_run(service)
        while c._receive_supply() or c._receive() or c._safe():  # everything that c does except catching up
            assert arrears(c) <= left
        left = arrears(c)
    assert told(c) is None
    service.run()
    assert [member.machine.entries for member in service.members.values()] == [[*missed, *more]] * 3
    assert told(c) == told(service["a"])


def test_own_entries_of_a_member_catching_up_are_resolved() -> None:
    service, missed = comes_back()
    tickets = service["c"].replica.submit_all([b"mine", b"too"])
    assert len(tickets) == service["c"].replica.unresolved == 2
    service.run()
    assert service["c"].replica.unresolved == 0
    assert service["c"].machine.entries == [*missed, b"mine", b"too"] == service["a"].machine.entries


@pytest.mark.parametrize("at", [0, 1, 100])
def test_a_view_that_ends_during_catch_up_is_not_reported(at: int) -> None:
    service, missed = comes_back()
    c = service["c"]
    for _ in range(at):
        c.total_order.tick()
    service.views("ab", "c").run()  # c delivers confirmed entries in any view
    assert told(c) is None
    assert c.machine.entries == missed
    service["a"].replica.submit(b"last")
    service.run()
    service.views("abc").run()
    assert told(c) == told(service["a"]) is not None
    assert [member.machine.entries for member in service.members.values()] == [[*missed, b"last"]] * 3


@pytest.mark.parametrize("at", [0, 1, 100])
def test_another_primary_view_in_the_middle(at: int) -> None:
    """The application is told of the second view, when it has everything confirmed before it."""
    service, missed = comes_back()
    c = service["c"]
    for _ in range(at):
        c.total_order.tick()
    service.views("ac", "b")
    while c.offered is not None or c.total_order.status != "normal":
        assert service.run(1) == 1
    assert arrears(c) > 0
    assert told(c) is None
    service.run()
    assert told(c) == told(service["a"]) is not None
    assert c.machine.entries == missed
    service.views("abc").run()
    assert [member.machine.entries for member in service.members.values()] == [missed] * 3


@pytest.mark.parametrize("at", [0, 1, 100])
def test_a_member_stopped_during_catch_up_has_everything_on_disk(at: int) -> None:
    service, missed = comes_back()
    for _ in range(at):
        service["c"].total_order.tick()
    service["c"].flush()
    service.restart("c")
    assert service["c"].machine.entries == missed
    service.views("abc").run()
    assert [member.machine.entries for member in service.members.values()] == [missed] * 3


def test_a_snapshot_in_the_middle_is_that_of_its_position() -> None:
    """c takes snapshots while it catches up, and they equal those of its peers."""
    service, missed = comes_back(Settings(snapshot_every=3_000, report_len_max=STEP))
    service.run()
    for member in service.members.values():
        assert member.machine.entries == missed
        assert member.total_order.snapshot is not None
        assert member.total_order.snapshot == service["a"].total_order.snapshot
