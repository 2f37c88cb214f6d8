"""Weights of active classes: their shares, whatever they sent before."""

from __future__ import annotations

from qosweb.engine.local.active_weights import ActiveWeights
from qosweb.webqos import Environment
from tests.engine.driver import policy_of

TEXT = "</now>.available = always\n</a>.server_resource = 65%\n</b>.server_resource = 35%\n"


def weights(text: str, *names: str) -> list[int | None]:
    policy = policy_of(text)
    return ActiveWeights().of(tuple(policy.names.index(name) for name in names), policy.bind(Environment()))


def test_classes_that_can_send_have_the_shares_of_the_rules() -> None:
    assert weights(TEXT, "/b", "/a") == [350_000, 650_000]


def test_always_available_classes_have_no_weight() -> None:
    assert weights(TEXT, "/now", "/a")[0] is None


def test_a_ceiling_holds_against_the_only_other_class_that_can_send() -> None:
    text = "</free>.server_resource < 10%\n</shop>.server_resource > 60%\n</paid>.server_resource > 30%\n"
    free, paid = weights(text, "/free", "/paid")
    assert free == 100_000
    assert paid == 900_000


def test_a_class_of_an_earlier_policy_gets_what_others_leave() -> None:
    policy = policy_of(TEXT)
    a = policy.names.index("/a")
    assert ActiveWeights().of((a, 99), policy.bind(Environment()))[1] == 0


def test_weights_follow_a_change_of_the_policy() -> None:
    found, policy = ActiveWeights(), policy_of(TEXT)
    ab = (policy.names.index("/a"), policy.names.index("/b"))
    found.of(ab, policy.bind(Environment()))
    other = policy_of(TEXT.replace("65", "20").replace("35", "80"))
    assert found.of(ab, other.bind(Environment())) == [200_000, 800_000]
