"""Cache of parsed heads: a head is kept when it comes again, and the cache is bounded."""

from __future__ import annotations

from qosweb.http.known_heads import HEAD_LEN_MAX, HEADS_MAX, SEEN_ONCE_MAX, KnownHeads


def test_a_head_is_known_from_the_second_time_on() -> None:
    heads: KnownHeads[int] = KnownHeads()
    heads.remember(b"head", 1)
    assert not heads.known
    heads.remember(b"head", 1)
    assert heads.known == {b"head": 1}
    heads.forget()
    assert heads.get(b"head") is None


def test_what_is_remembered_is_bounded() -> None:
    heads: KnownHeads[int] = KnownHeads()
    for number in range(3 * max(HEADS_MAX, SEEN_ONCE_MAX)):
        for _ in range(2):
            heads.remember(b"%d" % number, number)
        assert len(heads.known) <= HEADS_MAX
        assert len(heads._seen_once) <= SEEN_ONCE_MAX
    for _ in range(3):
        heads.remember(b"x" * (HEAD_LEN_MAX + 1), 1)
    assert b"x" * (HEAD_LEN_MAX + 1) not in heads.known
