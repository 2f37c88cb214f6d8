"""Evaluation of a policy in an environment."""

from __future__ import annotations

from qosweb.engine.replicated.bound_policy import CHANNEL_BPS, BoundPolicy
from qosweb.engine.replicated.buckets import REQUEST
from qosweb.engine.replicated.entries import PolicyText
from qosweb.webqos import Environment
from qosweb.webqos.values import PPM
from tests.engine.driver import Cluster, policy_of
from tests.support.contradictions import UNSEEN


def bound(text: str, **what: int) -> tuple[BoundPolicy, list[str]]:
    policy = policy_of(text)
    return policy.bind(Environment(**what)), policy.names  # type: ignore[arg-type]


def test_channel_rate_is_the_class_setting_or_the_global_one() -> None:
    policy, names = bound("set channel = 16KB in 64ms\n</a>.channel = 8KB in 16ms\n</b>.server_resource > 1%\n")
    assert policy.rate_bps(names.index("/a"), 1) == 512_000
    assert policy.rate_bps(names.index("/b"), 1) == 256_000


def test_channel_rate_has_a_default() -> None:
    policy, names = bound("</a>.server_resource > 1%\n")
    assert policy.rate_bps(names.index("/a"), 1) == CHANNEL_BPS


def test_response_time_widens_the_channel_of_large_pages() -> None:
    policy, names = bound("set channel = 16KB in 64ms\n</a>.response_time < 100ms\n")
    a = names.index("/a")
    assert policy.rate_bps(a, 1000) == 256_000
    assert policy.rate_bps(a, 100_000) == 1_000_000
    assert policy.rate_bps(a, 100_001) == 1_000_010


def test_bounds_that_are_always_enforced_have_rules() -> None:
    text = (
        "</a>.num_requests < 5\n</b>.num_bytes < 40KB/s\n</c>.server_resource < 10% hard\n</d>.server_resource < 10%\n"
    )
    policy, names = bound(text, capacity_bps=1_000_000, nodes=3)
    by_class = {names[rule.classes[0]]: rule for rule in policy.rules}
    assert set(by_class) == {"/a", "/b", "/c"}
    assert (by_class["/a"].counts, by_class["/a"].rate_per_s) == ("requests", 5 * REQUEST)
    assert by_class["/b"].counts == "bytes"
    assert (by_class["/c"].counts, by_class["/c"].rate_per_s) == ("bytes", 100_000)
    assert [bool(found) for found in policy.buckets_of] == [name in by_class for name in names]


def test_rate_per_node_grows_with_the_number_of_nodes() -> None:
    one, _ = bound("</a>.num_requests < 5 * nodes\n", nodes=1)
    three, _ = bound("</a>.num_requests < 5 * nodes\n", nodes=3)
    assert three.rules[0].rate_per_s == 3 * one.rules[0].rate_per_s


def test_a_hard_share_of_an_unknown_capacity_is_not_enforced() -> None:
    policy, _ = bound("</c>.server_resource < 10% hard\n")
    assert policy.rules == []


def test_always_available_classes_pass_every_bucket() -> None:
    policy, names = bound("</s/a>.available = always\n</s>.num_requests < 5\n")
    assert policy.buckets_of[names.index("/s/a")] == ()
    assert policy.buckets_of[names.index("/s")] == (0,)


def test_shares_follow_the_demand() -> None:
    policy, names = bound("</a>.server_resource = 25%\n</b>.server_resource = 75%\n", capacity_bps=1000)
    a, b = names.index("/a"), names.index("/b")
    both = policy.shares([PPM if at in (a, b) else 0 for at in range(len(names))])
    assert (both[a], both[b]) == (PPM // 4, 3 * PPM // 4)
    assert policy.shares([PPM if at == a else 0 for at in range(len(names))])[a] == PPM


def test_first_constraint_wins_in_a_contradiction() -> None:
    text = "</a/*>.lifetime = 1s\n</*/b>.lifetime = 2s\n</x> before </y>\n</y> before </z>\n</z> before </x>\n"
    policy, names = bound(text)
    assert policy.terms[names.index("/a/*+/*/b")].lifetime_ms == 1000
    shares = dict(zip(names, policy.shares([PPM] * len(names)), strict=True))
    assert shares["/x"] > 0
    assert shares["/y"] == shares["/z"] == 0


def test_undetected_contradiction_stops_no_replica() -> None:
    policy = policy_of(UNSEEN)
    cluster = Cluster("", "ab")
    cluster.tell("a", policy=PolicyText(policy.text, policy.packed))
    of_all = range(len(policy.model.page_sets))
    cluster.tell("a", 500, accessed=[(page_set, 400) for page_set in of_all])
    cluster.tell("b", 1000, submitted=[(number, number % len(policy.names), 30_000) for number in range(1, 200)])
    terms = cluster.machine.scheduler.bound.terms[cluster.number("/a/*+/*/b")]
    assert terms.lifetime_ms == 1000
