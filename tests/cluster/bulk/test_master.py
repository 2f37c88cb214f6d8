"""The replicated master: fig. 1 and section 5 of TR 90-1141."""

from __future__ import annotations

from cluster.bulk.master import Accept, AddMember, ChangeView, Grant, MarkReady, Master, Reject, RemoveMember
from cluster.bulk.packets import T_MAX, RecentMessage, Status
from cluster.names import ProcessId

A, B, C = (ProcessId(name) for name in "abc")


def web(*, with_state: bool = False) -> Master:
    master = Master(1)
    master.apply(ChangeView((A, B, C)))
    for member in (A, B, C):
        master.apply(AddMember(member, 1, with_state))
        master.apply(MarkReady(member, master.next - 1))
    return master


def accept(master: Master, number: int) -> None:
    master.apply(Accept(number, (A, B), master.views))


def test_tokens_have_consecutive_numbers_and_are_pending() -> None:
    master = web()
    master.apply(Grant(A, 1))
    master.apply(Grant(B, 1))
    assert master.pending() == [(4, A), (5, B)]
    assert master.granted == {A: (1, 4), B: (1, 5)}


def test_no_more_tokens_than_t_cur() -> None:
    """Section 5.1."""
    master = web()
    for producer in (A, B, C):
        master.apply(Grant(producer, 1))
    assert [producer for _, producer in master.pending()] == [A, B]


def test_a_repeated_request_gets_one_token() -> None:
    master = web()
    master.apply(Grant(A, 1))
    master.apply(Grant(A, 1))
    assert master.pending() == [(4, A)]


def test_the_oldest_of_the_recent_messages_is_decided() -> None:
    """Section 3.2: the earliest of the t messages is accepted or rejected."""
    master = web()
    master.apply(Grant(A, 1))
    for request in range(1, 20):
        master.apply(Grant(B, request))
        accept(master, master.next - 1)
    assert master.next - 4 == T_MAX - 1  # message 4 is pending: nothing is added that would make it the oldest
    master.apply(AddMember(C, 2, with_state=False))
    assert master.next - 4 == T_MAX - 1
    accept(master, 4)
    master.apply(AddMember(C, 2, with_state=False))
    assert master.next - 4 == T_MAX
    assert master.recent[-1] == RecentMessage(Status.ACCEPTED, A)  # also those that missed its acceptance learn of it


def test_a_decision_is_final() -> None:
    """L2."""
    master = web()
    master.apply(Grant(A, 1))
    master.apply(Reject(4))
    accept(master, 4)
    assert master.status(4) is Status.REJECTED
    assert master.status(99) is None


def test_a_message_is_accepted_only_with_a_majority_of_copies() -> None:
    master = web()
    master.apply(Grant(A, 1))
    master.apply(Accept(4, (A,), master.views))
    assert master.status(4) is Status.PENDING
    master.apply(Accept(4, (A, C), master.views))
    assert master.status(4) is Status.ACCEPTED


def test_an_acceptance_of_an_earlier_view_is_void() -> None:
    """The order may deliver it late: a holder that was away may have restarted without the message."""
    master = web()
    master.apply(Grant(A, 1))
    before = master.views
    master.apply(ChangeView((A, C)))
    master.apply(ChangeView((A, B, C)))
    master.apply(Accept(4, (A, B), before))
    assert master.status(4) is Status.PENDING


def test_who_joined_later_has_no_vote() -> None:
    master = web()
    master.apply(Grant(A, 1))
    master.apply(AddMember(B, 2, with_state=False))
    assert master.voters(4) == {A, C}
    assert master.voters(5) == {A, B, C}


def test_a_member_that_waits_to_join_again_has_no_vote() -> None:
    """Otherwise it waits for room behind a message that waits for its vote."""
    master = web()
    master.apply(ChangeView((A, B)))
    master.apply(Grant(A, 1))
    for request in range(1, T_MAX):
        master.apply(Grant(B, request))
        accept(master, master.next - 1)
    master.apply(AddMember(B, 2, with_state=False))
    assert master.joined[B].attempt == 1  # no room
    assert master.voters(4) == {A}
    master.apply(Accept(4, (A,), master.views))
    master.apply(AddMember(B, 2, with_state=False))
    assert (master.joined[B].attempt, master.voters(master.next)) == (2, {A, B})


def test_a_new_coordinator_rejects_what_is_pending() -> None:
    """Section 5.2."""
    master = web()
    master.apply(Grant(C, 1))
    master.apply(ChangeView((A, C)))
    assert master.pending() == [(4, C)]
    master.apply(ChangeView((B, C)))
    assert (master.coordinator, master.status(4)) == (B, Status.REJECTED)


def test_membership_is_a_sequence_of_messages() -> None:
    """Section 5.3."""
    master = web()
    assert [slot.status for slot in master.recent] == [Status.JOINED] * 3
    assert master.joined[B].members == (A, B)
    master.apply(Grant(B, 1))
    master.apply(RemoveMember(B, 99))
    assert set(master.members) == {A, B, C}
    master.apply(RemoveMember(B, 2))
    assert set(master.members) == {A, C}
    assert master.recent[:2] == [RecentMessage(Status.LEFT, B), RecentMessage(Status.REJECTED, B)]


def test_a_restarted_process_replaces_its_predecessor_and_not_the_reverse() -> None:
    master = web()
    later = ProcessId("b", 7)
    master.apply(AddMember(later, 5, with_state=False))
    master.apply(AddMember(B, 4, with_state=False))
    assert master.members == (A, C, later)


def test_a_member_with_the_state_gives_it() -> None:
    """Fig. 6."""
    master = Master(1)
    master.apply(ChangeView((A, B, C)))
    master.apply(AddMember(B, 1, with_state=True))
    master.apply(AddMember(C, 1, with_state=True))
    master.apply(AddMember(A, 1, with_state=True))
    assert [slot.status for slot in reversed(master.recent)] == [Status.FOUNDED, Status.JOINED, Status.JOINED]
    assert (master.joined[C].giver, master.joined[A].giver) == (B, B)  # c has no state yet
    master.apply(ChangeView((A, C)))
    assert not master.can_join(A, 2, with_state=True)  # b has the state and may come back
    master.apply(RemoveMember(B, 1))
    master.apply(AddMember(A, 2, with_state=True))
    assert (master.recent[0], master.members) == (RecentMessage(Status.FOUNDED, A), (A,))


def test_tokens_adapt_to_use_and_to_failures() -> None:
    """Section 5.1."""
    master = web()
    request = 0
    while master.t_cur < T_MAX - 1:
        request += 1
        assert request < 100
        for producer in (A, B, C):
            for number in range(request * 10, request * 10 + 3):
                master.apply(Grant(producer, number))
        for number, _ in master.pending():
            accept(master, number)
    master.apply(Grant(A, 10_000))
    master.apply(Reject(master.next - 1))
    assert master.t_cur == (T_MAX - 1) // 2
    for number in range(10_001, 10_010):
        master.apply(Grant(A, number))
        master.apply(Reject(master.next - 1))
    assert master.t_cur == 1
