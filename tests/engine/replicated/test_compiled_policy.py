"""Compiled policies: encoding, and the environment they are evaluated in."""

from __future__ import annotations

import pytest
from msgspec import MsgspecError

from qosweb.engine.replicated.compiled_policy import REBIND_MS, CompiledPolicy
from qosweb.engine.replicated.pipes import Pipe
from qosweb.webqos.policy.terms import LIFETIME_DEFAULT_MS
from tests.engine.driver import policy_of

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
def test_one_wrong_clock_has_no_effect(wrong_ms: int, at: int) -> None:
    policy = policy_of(NIGHT)
    noon_ms = 12 * HOUR_MS
    walls = [noon_ms, noon_ms + 3, noon_ms + 7]
    walls[at] += wrong_ms
    environment = policy.environment(0, pipes(*walls), {})
    assert abs(environment.time_s - 12 * 3600) <= 1


def test_nodes_without_a_report_are_ignored() -> None:
    policy = policy_of(NIGHT)
    silent = Pipe()
    silent.wall_ms = 10**12
    environment = policy.environment(5000, [*pipes(12 * HOUR_MS), silent, silent], {})
    assert environment.time_s == 12 * 3600 + 5
    assert environment.nodes == 3
    assert environment.capacity_bps == 1000


def test_capacity_is_unknown_before_the_first_report() -> None:
    assert policy_of(NIGHT).environment(0, [], {}).capacity_bps is None
    assert policy_of(NIGHT).environment(0, [], {}).nodes == 1


def test_accesses_are_given_as_ages() -> None:
    assert policy_of(NIGHT).environment(900, [], {3: 250}).accessed_ms == {3: 650}


def test_load_is_the_mean_over_reporting_nodes() -> None:
    two = pipes(0, 0)
    two[0].load_ppm, two[1].load_ppm = 100_000, 400_000
    assert policy_of(NIGHT).environment(0, [*two, Pipe()], {}).load_ppm == 250_000


def test_only_a_policy_that_depends_on_time_is_bound_anew() -> None:
    assert policy_of(NIGHT).binds_anew(0, REBIND_MS)
    assert not policy_of(NIGHT).binds_anew(0, REBIND_MS - 1)
    assert not policy_of("nodes < 3 => </a>.server_resource > 10%\n").binds_anew(0, 10**9)
    assert not policy_of("</a>.server_resource > 10%\n").binds_anew(0, 10**9)


def test_encoding_round_trip() -> None:
    policy = policy_of(NIGHT)
    other = CompiledPolicy.of(policy.text, policy.packed)
    assert (other.names, other.digest, other.default) == (policy.names, policy.digest, policy.default)


def test_invalid_model_is_rejected() -> None:
    with pytest.raises(MsgspecError):
        CompiledPolicy.of("", b"\xc1 no model")


def test_default_lifetime_applies_to_written_policies_only() -> None:
    def lifetimes_ms(policy: CompiledPolicy) -> set[int | None]:
        return {terms.lifetime_ms for terms in policy.bind(policy.environment(0, [], {})).terms}

    assert lifetimes_ms(CompiledPolicy.empty()) == {None}
    assert lifetimes_ms(policy_of("</a>.server_resource > 10%\n")) == {LIFETIME_DEFAULT_MS}
    assert lifetimes_ms(policy_of("</a>.server_resource > 10%\nset lifetime = 2s\n")) == {2_000}
