"""The Knee law and its samples, step by step."""

from __future__ import annotations

from math import log

import msgspec
import pytest

from qosweb.engine.laws.knee import LIMIT_AT_FIRST, Knee, LimitDecision, _Times
from qosweb.engine.laws.knee_posterior import KneePosterior
from qosweb.engine.laws.service_samples import MICRO, UNLIMITED, Sampler, SampleRow

S = 0.02


class ServerLimit:
    """A law and the samples of its only gateway."""

    def __init__(self, limit_max: int = 1024) -> None:
        self.law, self.sampler = Knee(limit_max), Sampler()
        self.start, self.end, self.fail = self.sampler.start, self.sampler.end, self.sampler.fail

    @property
    def limit(self) -> int:
        return self.law.limit

    def tick(self, now_s: float, in_service: int) -> LimitDecision | None:
        self.law.absorb(self.sampler.take())
        decision = self.law.tick(now_s, in_service)
        if decision is not None:
            self.sampler.epoch = decision.epoch
        return decision


class FewPlaces:
    """A server with `places` places, always full: a request takes 20 ms, and its part of the queue."""

    def __init__(self, places: int, limit_max: int = 1024) -> None:
        self.one = ServerLimit(limit_max)
        self.places = places
        self.now_s = 0.0
        self.limits: list[int] = []

    def run(self, rounds: int) -> FewPlaces:
        for _ in range(rounds):
            limit = self.one.limit
            tags = [self.one.start(0, limit, True) for _ in range(limit)]
            took_s = S * max(1.0, limit / self.places)
            self.now_s += took_s
            for tag in tags:
                self.one.end(0, took_s, tag)
            self.one.tick(self.now_s, limit)
            self.limits.append(self.one.limit)
        return self


def test_places_are_found() -> None:
    for places in (1, 3, 10, 50):
        level = FewPlaces(places).run(400).one.law.level
        assert places < level <= max(places + 2, round(1.05 * places)), (places, level)


def test_limit_at_most_doubles() -> None:
    limits = FewPlaces(200).run(300).limits
    assert max(limits) > 190
    levels = [LIMIT_AT_FIRST, *limits]
    assert all(after <= 2 * max(levels[: i + 1]) for i, after in enumerate(levels[1:]))


def test_decisions_are_integers_and_count_up() -> None:
    found = FewPlaces(8)
    seen: list[LimitDecision] = []
    tick = found.one.law.tick
    for _ in range(300):
        found.run(1)
        seen.append(found.one.law.decision())
    assert tick(found.now_s, 0) is None or found.one.law.epoch > 0
    assert all(isinstance(one.limit, int) and isinstance(one.level, int) for one in seen)
    assert [one.epoch for one in seen] == sorted(one.epoch for one in seen)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen[-1]), type=LimitDecision) == seen[-1]


def test_dips_happen_and_end() -> None:
    found = FewPlaces(8).run(600)
    level = found.one.law.level
    dips = sum(limit < level for limit in found.limits[300:]) / 300
    assert 0.05 < dips < 0.3


def test_limit_does_not_move_while_it_does_not_bind() -> None:
    one = ServerLimit()
    now_s = 0.0
    for _ in range(500):
        tags = [one.start(0, 2, limited=False) for _ in range(2)]
        now_s += S
        for tag in tags:
            one.end(0, S, tag)
        assert one.tick(now_s, 2) is None or one.limit == LIMIT_AT_FIRST
    assert one.limit == LIMIT_AT_FIRST
    assert one.law.epoch == 1


def test_one_very_late_request_counts_as_four_usual_ones() -> None:
    sampler = Sampler()
    for _ in range(100):
        sampler.end(0, S, sampler.start(0, 4, limited=True))
    sampler.take()
    sampler.end(0, 100.0, sampler.start(0, 4, limited=True))
    (row,) = sampler.take()
    assert row.ln / MICRO == pytest.approx(log(4 * S), abs=0.2)


def test_failures_leave_limit_one() -> None:
    found = FewPlaces(8).run(300)
    one = found.one
    for _ in range(10):
        one.fail(0, one.start(0, 8, limited=True))
    one.tick(found.now_s + 0.01, 8)
    assert one.limit > 1
    one.fail(0, one.start(0, 8, limited=True))
    decision = one.tick(found.now_s + 0.02, 8)
    assert decision is not None
    assert decision.limit == 1
    for step in range(100):
        one.tick(found.now_s + 0.03 + step, 1)
        assert one.limit == 1


def test_a_success_ends_the_trial() -> None:
    found = FewPlaces(8).run(300)
    one = found.one
    level = one.law.level
    for _ in range(20):
        one.fail(0, one.start(0, 8, limited=True))
    one.tick(found.now_s, 8)
    assert one.limit == 1
    one.end(0, S, one.start(0, 1, limited=True))
    decision = one.tick(found.now_s + 0.1, 1)
    assert decision is not None
    assert decision.limit == decision.level == level


def row(law: Knee, started: int, ended: int, failed: int = 0, number: int = 0, took_s: float = S) -> SampleRow:
    return SampleRow(
        law.epoch, number, started, ended, failed, ln=round(ended * log(took_s) * MICRO),
        us=round(ended * took_s * MICRO), inverse=round(ended / took_s), ln_in_service=round(ended * log(4) * MICRO),
    )  # fmt: skip


def in_a_dip() -> Knee:
    law = Knee()
    law.tick(0.01, 4)
    law.absorb((row(law, 10, 10),))
    law.tick(0.1, 4)
    assert law.limit < LIMIT_AT_FIRST
    return law


def test_failed_requests_do_not_delay_a_judgement() -> None:
    """A dip in which a request failed is judged as soon as the others have ended."""
    law = in_a_dip()
    law.absorb((row(law, 11, 10, failed=1),))
    law.tick(0.2, 4)
    law.tick(0.21, 4)
    assert law.level > LIMIT_AT_FIRST


def test_dip_is_judged_when_all_its_requests_have_ended() -> None:
    law = in_a_dip()
    epoch = law.epoch
    law.absorb((row(law, 10, 9),))
    law.tick(0.15, 4)
    law.tick(0.16, 4)
    assert law.level == LIMIT_AT_FIRST
    law.absorb((SampleRow(epoch, 0, ended=1, ln=round(log(S) * MICRO), us=20_000, inverse=50),))
    law.tick(0.17, 4)
    assert law.level > LIMIT_AT_FIRST


def test_dip_lasts_for_a_number_of_starts() -> None:
    law = in_a_dip()
    for step in range(100):
        law.tick(0.2 + step / 10, 4)
    assert law.limit < LIMIT_AT_FIRST
    law.absorb((row(law, 10, 10),))
    law.tick(10.3, 4)
    assert law.limit >= LIMIT_AT_FIRST


def test_change_of_the_mix_is_no_change_of_service_time() -> None:
    """At b mostly slow requests start, in the dip mostly fast ones; neither class waits."""
    law = Knee()
    for step in range(40):
        slow, fast = (12, 4) if law.limit == law.level else (4, 12)
        law.absorb((row(law, slow, slow, number=1, took_s=10 * S), row(law, fast, fast)))
        law.tick(0.1 + step / 10, law.limit)
    assert law.level > 2 * LIMIT_AT_FIRST


def test_returned_server_starts_at_one() -> None:
    found = FewPlaces(16).run(400)
    found.one.law.restart()
    assert found.one.limit == 1
    found.limits.clear()
    found.run(400)
    assert found.limits[0] <= 2
    assert max(found.limits[:4]) <= 4
    assert 16 < found.one.law.level <= 18


def test_classes_can_be_renumbered() -> None:
    found = FewPlaces(8).run(300)
    level = found.one.law.level
    found.one.sampler.forget_classes()
    found.one.law.forget_classes()
    found.run(100)
    assert abs(found.one.law.level - level) <= 1


def test_batches_of_gateways_add_up() -> None:
    """Three gateways that share the samples lead to the decisions of one."""
    alone, together = Knee(), Knee()
    single, samplers = Sampler(), [Sampler() for _ in range(3)]
    now_s = 0.0
    for _ in range(300):
        limit = alone.limit
        assert together.decision() == alone.decision()
        took_s = S * max(1.0, limit / 9)
        now_s += took_s
        for i in range(limit):
            for sampler in (single, samplers[i % 3]):
                sampler.epoch = alone.epoch
                sampler.end(0, took_s, sampler.start(0, limit, limited=True))
        alone.absorb(single.take())
        for sampler in samplers:
            together.absorb(sampler.take())
        alone.tick(now_s, limit)
        together.tick(now_s, limit)
    assert 10 <= together.level <= 11


def test_samples_travel_as_integers() -> None:
    sampler = Sampler()
    sampler.end(3, 0.5, sampler.start(3, 2, limited=False))
    sampler.fail(3, sampler.start(3, 3, limited=True))
    batch = sampler.take()
    assert sampler.take() == ()
    assert [row.epoch for row in batch] == [UNLIMITED, 1]
    assert all(isinstance(value, int) for row in batch for value in msgspec.to_builtins(row))
    assert (batch[0].ended, batch[1].started, batch[1].failed) == (1, 1, 1)


def test_posterior_narrows_with_evidence_and_widens_without() -> None:
    posterior = KneePosterior(1024, 4)
    for _ in range(20):
        posterior.observe(8, 16, log(16 / 10), 0.01, 1.0)
    assert 9 < posterior.q10 <= posterior.q50 <= posterior.q90 < 11
    narrow = posterior.q90 / posterior.q10
    for _ in range(20):
        posterior.advance(5.0)
    posterior.observe(8, 16, log(16 / 10), 100.0, 1.0)
    assert posterior.q90 / posterior.q10 > 1.2 * narrow


def test_member_that_takes_over_begins_with_the_level_found() -> None:
    found = FewPlaces(20).run(400)
    level = found.one.law.level
    found.one.law = Knee(level=level)
    found.one.sampler.epoch = found.one.law.epoch
    found.limits.clear()
    found.run(300)
    assert found.limits[:2] == [level, level]
    assert min(found.limits) >= level // 2
    assert abs(found.one.law.level - level) <= 1


def test_member_that_takes_over_finds_a_server_that_grew() -> None:
    found = FewPlaces(20)
    found.one.law = Knee(level=5)
    found.run(600)
    assert 20 < found.one.law.level <= 22


def test_member_that_takes_over_keeps_the_bound_by_hand() -> None:
    assert Knee(limit_max=3, level=50).limit == 3


def test_failures_whose_starts_were_lost_do_not_count() -> None:
    law = Knee()
    law.absorb(tuple(SampleRow(0, number, ended=1, ln=1000, us=20_000, inverse=50) for number in (0, 1)))
    weights = law._weights({0: _Times(1, 1), 1: _Times(-1, 0)})
    assert [(number, round(share, 6), weight) for number, (share, weight, _) in weights.items()] == [(0, 1.0, 1.0)]
