"""The policy that travels, and what it is bound to."""

from __future__ import annotations

import pytest
from msgspec import MsgspecError

from qosweb.engine.replicated.compiled_policy import REBIND_MS, CompiledPolicy
from qosweb.engine.replicated.pipes import Pipe
from qosweb.webqos.policy.terms import LIFETIME_DEFAULT_MS
from tests.engine.driver import law_of

HOUR_MS = 3_600_000
NIGHT = "time in 22:00..06:00 => </a>.server_resource > 10%\n"


def pipes(*walls_ms: int, capacity_bps: int = 1000) -> list[Pipe]:
    found = []
    for wall_ms in walls_ms:
        pipe = Pipe()
        pipe.capacity_bps, pipe.wall_ms = capacity_bps, wall_ms
        found.append(pipe)
    return found


@pytest.mark.parametrize("wrong_ms", [-HOUR_MS, HOUR_MS, -(10**12), 10**12])
@pytest.mark.parametrize("at", range(3))
def test_one_clock_that_is_wrong_moves_nothing(wrong_ms: int, at: int) -> None:
    law = law_of(NIGHT)
    noon_ms = 12 * HOUR_MS
    walls = [noon_ms, noon_ms + 3, noon_ms + 7]
    walls[at] += wrong_ms
    environment = law.environment(0, pipes(*walls), {})
    assert abs(environment.time_s - 12 * 3600) <= 1


def test_nodes_that_have_not_reported_have_no_say() -> None:
    law = law_of(NIGHT)
    silent = Pipe()
    silent.wall_ms = 10**12
    environment = law.environment(5000, [*pipes(12 * HOUR_MS), silent, silent], {})
    assert environment.time_s == 12 * 3600 + 5
    assert environment.nodes == 3
    assert environment.capacity_bps == 1000


def test_before_anybody_reported_the_capacity_is_not_known() -> None:
    assert law_of(NIGHT).environment(0, [], {}).capacity_bps is None
    assert law_of(NIGHT).environment(0, [], {}).nodes == 1


def test_accesses_are_told_as_how_long_ago() -> None:
    assert law_of(NIGHT).environment(900, [], {3: 250}).accessed_ms == {3: 650}


def test_load_is_the_mean_of_those_that_reported() -> None:
    two = pipes(0, 0)
    two[0].load_ppm, two[1].load_ppm = 100_000, 400_000
    assert law_of(NIGHT).environment(0, [*two, Pipe()], {}).load_ppm == 250_000


def test_only_a_policy_that_depends_on_time_is_bound_anew() -> None:
    assert law_of(NIGHT).binds_anew(0, REBIND_MS)
    assert not law_of(NIGHT).binds_anew(0, REBIND_MS - 1)
    assert not law_of("nodes < 3 => </a>.server_resource > 10%\n").binds_anew(0, 10**9)
    assert not law_of("</a>.server_resource > 10%\n").binds_anew(0, 10**9)


def test_it_travels() -> None:
    law = law_of(NIGHT)
    other = CompiledPolicy.of(law.text, law.packed)
    assert (other.names, other.digest, other.default) == (law.names, law.digest, law.default)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(MsgspecError):
        CompiledPolicy.of("", b"\xc1 no model")


def test_who_writes_no_lifetime_has_the_default_and_who_writes_nothing_has_none() -> None:
    def lifetimes_ms(law: CompiledPolicy) -> set[int | None]:
        return {terms.lifetime_ms for terms in law.bind(law.environment(0, [], {})).terms}

    assert lifetimes_ms(CompiledPolicy.empty()) == {None}
    assert lifetimes_ms(law_of("</a>.server_resource > 10%\n")) == {LIFETIME_DEFAULT_MS}
    assert lifetimes_ms(law_of("</a>.server_resource > 10%\nset lifetime = 2s\n")) == {2_000}
