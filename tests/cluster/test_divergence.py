"""Divergence: which state is kept when replicas differ, and which member starts anew."""

from __future__ import annotations

from itertools import product

from cluster.divergence import judge_states
from cluster.names import ProcessId, make_view
from cluster.primary import is_quorum

VIEWS = [make_view(1, dict.fromkeys((ProcessId(name) for name in "abcde"[:count]), 1)) for count in range(1, 6)]


def test_no_verdict_before_all_digests_are_known() -> None:
    a, b, c = VIEWS[2].members
    assert judge_states(VIEWS[2], {a: "x", b: "y"}) is None
    assert judge_states(VIEWS[2], {a: "x", b: "x", c: "x"}) is None


def test_the_state_of_a_quorum_or_of_the_lowest_member_is_kept() -> None:
    a, b, c = VIEWS[2].members
    verdict = judge_states(VIEWS[2], {a: "x", b: "y", c: "y"})
    assert verdict is not None
    assert (verdict.digest, verdict.kept, verdict.wrong) == ("y", (b, c), a)
    verdict = judge_states(VIEWS[2], {a: "x", b: "y", c: "z"})
    assert verdict is not None
    assert (verdict.digest, verdict.kept, verdict.wrong) == ("x", (a,), c)
    verdict = judge_states(VIEWS[1], {a: "x", b: "y"})
    assert verdict is not None
    assert verdict.wrong == b


def test_the_others_stay_a_quorum_and_all_states_converge() -> None:
    for view in VIEWS:
        for states in product("vwxyz"[: len(view.members)], repeat=len(view.members)):
            said = dict(zip(view.members, states, strict=True))
            for _ in view.members:
                verdict = judge_states(view, said)
                if verdict is None:
                    break
                assert said[verdict.wrong] != verdict.digest
                assert is_quorum([member for member in view.members if member != verdict.wrong], view)
                said[verdict.wrong] = verdict.digest
            assert len(set(said.values())) == 1
