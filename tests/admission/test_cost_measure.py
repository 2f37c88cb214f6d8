"""What a request to an upstream server costs by the measure of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.admission.cost_measure import CostMeasure, read_amount
from qosweb.webqos import Environment
from tests.engine.driver import policy_of

if TYPE_CHECKING:
    from qosweb.webqos.policy.terms import Terms


def terms_of(cost: str) -> Terms:
    policy = policy_of(f"</a>.cost = {cost}\n")
    return policy.bind(Environment()).terms[policy.names.index("/a")]


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0", 0), ("1", 1000), ("2.5", 2500), ("0.001", 1), (" 7\t", 7000), ("1000000000", 10**12)],
)
def test_costs(text: str, amount: int) -> None:
    assert read_amount(text) == amount


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.", ".5", "1.2345", "1e3", "nan", "inf", "1000000001", "1000000000.001", "1,5", "\u0663"]
)
def test_values_that_are_no_costs(text: str) -> None:
    assert read_amount(text) is None


def test_requests_and_bytes_need_no_header() -> None:
    measure = CostMeasure(pytest.fail)
    assert measure.amount("/a", terms_of("requests"), 5, None) == 1000
    assert measure.amount("/a", terms_of("bytes"), 5, None) == 5000
    assert measure.amount("/a", terms_of("time"), 5, None) is None


def test_a_bad_header_is_logged_once_for_each_class() -> None:
    logged: list[str] = []
    measure, terms = CostMeasure(logged.append), terms_of('response_header("X-Cost")')
    assert measure.amount("/a", terms, 5, ["2"]) == 2000
    assert measure.amount("/a", terms, 5, None) is None  # there was no response
    assert logged == []
    for values in (["much"], [], ["1", "2"]):
        assert measure.amount("/a", terms, 5, values) is None
    assert len(logged) == 1
    assert "x-cost" in logged[0]
    assert "'much'" in logged[0]
    measure.amount("/b", terms, 5, [])
    assert "is missing" in logged[1]
