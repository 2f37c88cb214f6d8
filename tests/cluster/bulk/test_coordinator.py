"""The coordinator: fig. 1 and sections 3.4, 5.2 and 5.3 of TR 90-1141."""

from __future__ import annotations

from cluster.bulk.coordinator import ABSENCE_BEATS, REPEAT_BEATS, SILENCE_BEATS, SILENCE_IN_VIEW_BEATS
from cluster.bulk.effects import Propose
from cluster.bulk.master import Accept, AddMember, ChangeView, Entry, Grant, Reject, RemoveMember
from cluster.bulk.packets import (
    Complete,
    EmptyPacket,
    JoinConfirm,
    JoinRequest,
    NakDeny,
    Status,
    TokenGrant,
    TokenRequest,
)
from tests.cluster.bulk.single import BEAT, A, B, C, Single


def proposed(single: Single) -> list[Entry]:
    return [effect.entry for effect in single.take() if isinstance(effect, Propose)]


def granted(request: int = 1) -> Single:
    """The coordinator has granted message 4 to b."""
    single = Single(A)
    single.receive(B, TokenRequest(single.header(), request))
    single.apply(Grant(B, request))
    single.take()
    return single


def test_a_token_is_ordered_before_it_is_announced() -> None:
    """Section 5.2."""
    single = Single(A)
    single.receive(B, TokenRequest(single.header(), 1))
    effects = single.take()
    assert [effect.entry for effect in effects if isinstance(effect, Propose)] == [Grant(B, 1)]
    assert not any(isinstance(getattr(effect, "packet", None), TokenGrant) for effect in effects)
    single.apply(Grant(B, 1))
    assert [(grant.request, grant.number) for grant in single.sent(TokenGrant)] == [(1, 4)]


def test_a_repeated_request_gets_the_same_token() -> None:
    single = granted()
    single.receive(B, TokenRequest(single.header(), 1))
    assert [grant.number for grant in single.sent(TokenGrant)] == [4]


def test_an_acceptance_is_ordered_before_it_is_announced() -> None:
    single = granted()
    single.receive(B, Complete(single.header(), 4, 1))
    assert proposed(single) == []
    single.receive(C, Complete(single.header(), 4, 1))
    effects = single.take()
    assert [effect.entry for effect in effects if isinstance(effect, Propose)] == [Accept(4, (B, C), 1)]
    headers = [effect.packet.header for effect in effects if hasattr(effect, "packet")]
    assert all(header.recent[0].status is Status.PENDING for header in headers)
    single.apply(Accept(4, (B, C), 1))
    assert [empty.header.recent[0].status for empty in single.sent(EmptyPacket)] == [Status.ACCEPTED]


def test_votes_do_not_survive_a_change_of_the_view() -> None:
    """A member that restarted has the same name and not the message: those that still have it tell so again."""
    single = granted()
    single.receive(B, Complete(single.header(), 4, 1))
    single.apply(ChangeView((A, C)))
    single.apply(ChangeView((A, B, C)))
    single.receive(C, Complete(single.header(), 4, 3))
    assert proposed(single) == []
    single.receive(B, Complete(single.header(), 4, 1))  # it was on its way when b restarted
    assert proposed(single) == []
    single.receive(B, Complete(single.header(), 4, 3))
    assert proposed(single) == [Accept(4, (B, C), 3)]


def test_a_proposal_is_repeated_only_after_a_while() -> None:
    single = Single(A)
    single.receive(B, TokenRequest(single.header(), 1))
    single.beats(REPEAT_BEATS - 1)
    assert proposed(single) == [Grant(B, 1)]
    single.beats(9)
    assert proposed(single) == [Grant(B, 1)]


def test_a_silent_producer_has_failed() -> None:
    """Fig. 1, failure(s): sooner if it is not in the primary view."""
    for view, silence in (((A, B, C), SILENCE_IN_VIEW_BEATS), ((A, C), SILENCE_BEATS)):
        single = granted()
        single.apply(ChangeView(view))
        single.beats(silence / 2)
        single.receive(B, EmptyPacket(single.process.context.statuses.header(single.header().parameters), 4, 0, False))
        single.beats(silence - 2)
        assert Reject(4) not in proposed(single)
        single.beats(4)
        assert Reject(4) in proposed(single)


def test_a_pause_of_the_coordinator_is_no_silence_of_the_producer() -> None:
    single = granted()
    single.apply(ChangeView((A, C)))
    single.beats(SILENCE_BEATS - 2)
    single.now += 1000 * BEAT
    single.process.tick(single.now)
    assert Reject(4) not in proposed(single)


def test_a_producer_gives_its_token_back() -> None:
    single = granted()
    single.receive(C, NakDeny(single.header(), 4))
    assert proposed(single) == []
    single.receive(B, NakDeny(single.header(), 4))
    assert proposed(single) == [Reject(4)]


def test_a_message_that_nobody_receives_any_more_is_rejected() -> None:
    """Otherwise it would hold its token for as long as its producer lives."""
    single = granted()
    for member in (A, B, C):
        single.apply(AddMember(member, 2, with_state=False))
    assert Reject(4) in proposed(single)


def test_a_repeated_request_to_join_is_confirmed_with_the_same_number() -> None:
    single = Single(A)
    single.receive(C, JoinRequest(single.header(), 1, False))
    assert [(one.attempt, one.first, one.members) for one in single.sent(JoinConfirm)] == [(1, 3, (A, B, C))]
    single.receive(C, JoinRequest(single.header(), 2, False))
    assert proposed(single) == [AddMember(C, 2, with_state=False)]


def test_a_member_outside_the_primary_view_is_removed_after_a_while() -> None:
    """Section 5.3."""
    single = Single(A)
    single.apply(ChangeView((A, C)))
    single.beats(ABSENCE_BEATS - 2)
    assert proposed(single) == []
    single.beats(20)
    assert proposed(single) == [RemoveMember(B, 2)]


def test_only_the_lowest_ranked_member_of_the_view_acts() -> None:
    single = Single(B)
    single.receive(C, TokenRequest(single.header(), 1))
    assert proposed(single) == []
    single.apply(ChangeView((B, C)))
    single.receive(C, TokenRequest(single.header(), 1))
    assert proposed(single) == [Grant(C, 1)]
    single.process.primary_changed(single.now, is_in=False)
    single.receive(C, TokenRequest(single.header(), 2))
    assert proposed(single) == []
