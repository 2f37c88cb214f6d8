"""Policy binding: overrides, conditions, availability, rates, priorities, terms of classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos import Environment
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.match.predicates import as_test
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import Situation, outcomes
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.terms import terms_of
from tests.webqos.support import Facts, class_of, found_in, model_of, shares_of

NIGHT = Environment(time_s=23 * 3600)
DAY = Environment(time_s=12 * 3600)
MB = 1 << 20


def names(text: str) -> list[str]:
    return [one.name for one in model_of(text).classes]


def test_a_condition_that_holds_overrides_the_same_bound_without_one() -> None:
    text = "let night = time in 22:00..06:00\n<free>.server_resource < 10%\nnight => <free>.server_resource < 60%"
    assert shares_of(text, environment=DAY) == {"/free": 0.1, "default": 0.9}
    assert shares_of(text, environment=NIGHT) == {"/free": 0.5, "default": 0.5}


def test_it_overrides_only_its_own_direction_pages_and_attribute() -> None:
    text = """
    let night = time in 22:00..06:00
    </a>.server_resource > 20%
    </a/b>.server_resource < 5%
    night => </a>.server_resource < 30%
    """
    shares = shares_of(text, environment=NIGHT)
    assert 0.2 <= shares["/a"] + shares["/a/b"] <= 0.3
    assert shares["/a/b"] <= 0.05


def test_a_condition_on_the_client_overrides_for_that_client() -> None:
    text = """
    let vip = cookie("vip")
    </a>.server_resource < 10%
    vip => </a>.server_resource > 40%
    vip => </a>.server_resource < 60%
    """
    assert shares_of(text) == {"/a": 0.1, "/a#vip": 0.45, "default": 0.45}


def test_two_conditions_bind_together() -> None:
    text = "time > 20:00 => </a>.server_resource < 50%\nload > 50% => </a>.server_resource < 20%"
    both = Environment(time_s=23 * 3600, load_ppm=900_000)
    assert shares_of(text, environment=both)["/a"] == 0.2
    assert shares_of(text, environment=NIGHT)["/a"] == 0.5


def test_always_available_classes_come_first_and_shares_apply_to_the_rest() -> None:
    text = "</a>.available = always\n</b>.server_resource > 50%"
    assert shares_of(text, {"/a": 0.4, "/b": 1.0, "default": 1.0}) == {"/a": 0.4, "/b": 0.3, "default": 0.3}
    assert shares_of(text, {"/a": 2.0, "/b": 1.0}) == {"/a": 1.0, "/b": 0, "default": 0}


def test_always_while_a_page_was_accessed() -> None:
    text = "accessed(</p>) within 30s => </q>.available = always"
    model = model_of(text)
    coverage = Coverage(model)
    pages = next(at for at, one in enumerate(model.page_sets) if one.name == "/p")
    for age_ms, always in ((0, True), (30_000, True), (30_001, False)):
        binding = bind(model, coverage, Environment(accessed_ms={pages: age_ms}))
        assert terms_of(model, coverage, binding, 0).always is always
    assert names(text) == ["/q", "default"], "the pages of a condition make no class"


def test_rates_need_a_capacity_and_are_hard() -> None:
    text = "</a>.num_bytes < 1MB/s\n</b>.num_requests > 64"
    asks = {"/a": 1.0, "/b": 1.0}
    assert shares_of(text, asks)["/a"] == 0.5
    limited = shares_of(text, asks, Environment(capacity_bps=10 * MB))
    assert limited == {"/a": 0.1, "/b": 0.9, "default": 0}
    assert shares_of(text, {"/a": 1.0}, Environment(capacity_bps=10 * MB))["/a"] == 0.1


def test_relative_bounds() -> None:
    text = "</a>.server_resource = 30%\n</b>.server_resource = 2 * </a>.server_resource"
    assert shares_of(text) == {"/a": 0.3, "/b": 0.6, "default": 0.1}


def test_priority_is_over_what_lower_bounds_leave() -> None:
    text = "</a> before </b>\n</b>.server_resource > 20%"
    assert shares_of(text, {"/a": 1.0, "/b": 1.0}) == {"/b": 0.2, "/a": 0.8, "default": 0}


def test_rest_takes_what_is_left() -> None:
    text = "</a>.server_resource < 40%\n</b>.server_resource = rest"
    assert shares_of(text, {"/a": 1.0, "/b": 1.0}) == {"/a": 0.4, "/b": 0.6, "default": 0}
    assert shares_of(text, {"/a": 0.1, "/b": 1.0, "default": 0.5}) == {"/a": 0.1, "/b": 0.4, "default": 0.5}


def test_the_smaller_set_of_pages_decides_a_setting() -> None:
    text = "set lifetime = 1s\n</a>.lifetime = 2s\n</a/b>.lifetime = 3s\n</a>.channel = 16KB in 50ms"
    model = model_of(text)
    coverage = Coverage(model)
    binding = bind(model, coverage, Environment())
    found = {one.name: terms_of(model, coverage, binding, at).lifetime_ms for at, one in enumerate(model.classes)}
    assert found == {"/a": 2000, "/a/b": 3000, "default": 1000}
    assert terms_of(model, coverage, binding, 0).channel_bytes == 16 << 10


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("", ["default"]),
        ("let s = </a> | </b>\ns.available = always", ["s", "default"]),
        ("</a>.available = always\n</a/b>.num_bytes < 3", ["/a", "/a/b", "default"]),
        ('header("X") = "1" => </a>.num_bytes < 3', ["/a", "/a#1", "default"]),
        ("let own = client in 10.0.0.0/8\nown => </a>.num_bytes < 3", ["/a", "/a#own", "default"]),
        ("load > 5% => </a>.num_bytes < 3", ["/a", "default"]),
        ("links(</a>).num_bytes < 3", ["default", "default#links"]),
        ("</a>.num_bytes < 3 as first", ["first", "default"]),
        ("not method = GET and not method = HEAD => </a>.num_bytes < 3 as writes", ["/a", "writes", "default"]),
        ("shadow </a>.num_bytes < 3", ["default"]),
        ("size > 5 or client in ::1 => </a>.num_bytes < 3", ["/a", "/a#1", "default"]),
    ],
)
def test_classes_and_their_names(text: str, classes: list[str]) -> None:
    assert sorted(names(text)) == sorted(classes)


def test_conditions_are_evaluated_only_for_pages_that_need_them() -> None:
    model = model_of('cookie("vip") => </a>.num_bytes < 3\n</b>.num_bytes < 3')

    class Asked(Facts):
        def text(self, subject: str, argument: str) -> str | None:
            raise AssertionError((subject, argument))

    assert class_of(model, "/b", facts=Asked()) == "/b"
    with pytest.raises(AssertionError, match="cookie"):
        class_of(model, "/a", facts=Asked())


def test_the_decision_for_a_page_without_conditions_is_its_class() -> None:
    model = model_of("</a>.num_bytes < 3")
    assert Matcher(model).decide("x", "/a") == 0


LEAVES: st.SearchStrategy[c.Condition] = st.sampled_from(
    [
        c.Within("size", "", ((0, 10),)),
        c.Within("size", "", ((5, 20), (30, 40))),
        c.OneOf("method", "", ("GET", "HEAD")),
        c.OneOf("header", "x", ("a",)),
        c.Has("header", "x"),
        c.Like("header", "x", "a*"),
        c.Like("header", "x", "*b"),
        c.ClientIn(("10.0.0.0/8",)),
        c.ClientIn(("10.1.0.0/16", "::1/128")),
        c.Linked(3),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(c.Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: c.And(tuple(items))),
        st.lists(inner, min_size=1, max_size=3).map(lambda items: c.Or(tuple(items))),
    ),
    max_leaves=4,
)
FACTS = st.builds(
    Situation,
    st.fixed_dictionaries(
        {},
        optional={
            ("size", ""): st.integers(0, 50),
            ("method", ""): st.sampled_from(["GET", "POST"]),
            ("header", "x"): st.sampled_from(["a", "ab", "b", "A", "c", ""]),
            ("client", ""): st.sampled_from(["10.0.0.1", "10.1.2.3", "::1", "192.0.2.1", "unix"]),
            ("linked", "3"): st.integers(0, 1),
        },
    ),
)


@given(TREES, FACTS)
def test_a_compiled_condition_has_the_same_result(condition: c.Condition, facts: Situation) -> None:
    assert as_test(condition)(facts) == c.holds(condition, facts)


@given(st.lists(TREES, min_size=1, max_size=3), FACTS)
def test_the_outcome_of_every_request_is_a_known_combination(conditions: list[c.Condition], facts: Situation) -> None:
    if ("method", "") not in facts.chosen:
        facts.chosen["method", ""] = "PUT"
    foreseen = outcomes(conditions, 100_000)
    assert tuple(c.holds(condition, facts) for condition in conditions) in foreseen


@given(st.dictionaries(st.sampled_from(["/a", "/a/b", "/c", "default"]), st.floats(0, 2), max_size=4))
def test_no_bound_is_broken_and_nothing_is_wasted(demand: dict[str, float]) -> None:
    text = (
        "</a>.server_resource < 40% hard\n</a/b>.server_resource > 10%\n</c>.server_resource > 30%\n</c> before default"
    )
    shares = shares_of(text, demand)
    assert shares["/a"] + shares["/a/b"] <= 0.4001
    assert sum(shares.values()) <= 1.0001
    for name, share in shares.items():
        assert share <= demand.get(name, 0) + 1e-4
    assert shares["/c"] >= min(0.3, demand.get("/c", 0)) - 1e-4
    free = min(
        1.0, min(0.4, demand.get("/a", 0) + demand.get("/a/b", 0)) + demand.get("/c", 0) + demand.get("default", 0)
    )
    assert sum(shares.values()) >= free - 1e-3


def order(text: str) -> set[tuple[str, str]]:
    model = model_of(text)
    found = bind(model, Coverage(model), Environment()).before
    return {(model.classes[a].name, model.classes[b].name) for a, b in found}


def test_classes_on_both_sides_of_a_priority_come_between() -> None:
    assert order("</app/login> before </app>") == {("/app/login", "/app")}
    assert order("</app> before </app/login>") == {("/app", "/app/login")}
    assert order("</a> before all") == {("/a", "default")}
    assert order("</a/*> before </*/b>") == {
        ("/a/*", "/*/b"), ("/a/*", "/a/*+/*/b"), ("/a/*+/*/b", "/*/b")
    }  # fmt: skip


def test_some_requests_for_a_page_before_the_others() -> None:
    assert order('let vip = cookie("vip")\nvip => </a> before </a>') == {("/a#vip", "/a")}
    assert order('let vip = cookie("vip")\nvip => all before all') == {
        ("default#vip", "default")
    }  # fmt: skip


def test_an_ipv4_network_written_in_ipv6_is_that_network() -> None:
    text = "client in ::ffff:10.0.0.0/104 => </a>.server_resource < 10%"
    assert model_of(text).atoms == (c.ClientIn(("10.0.0.0/8",)),)


def test_a_long_list_of_robots_is_one_condition() -> None:
    names = " or ".join(f'header("User-Agent") like "*bot{number}*"' for number in range(80))
    text = f"let robots = {names}\nrobots => all.num_requests < 5\nnot robots => all before all"
    model = model_of(text)
    assert [one.name for one in model.classes] == ["default", "default#robots"]
    assert found_in(text) == []
    assert class_of(model, "/", facts=Facts(texts={"header user-agent": "A BOT79 and bot3"})) == "default#robots"


def test_many_robots_each_with_a_rule_of_its_own() -> None:
    text = "".join(f'header("User-Agent") like "*bot{at}*" => all.num_requests < {at + 1}\n' for at in range(20, 50))
    model = model_of(text)
    assert len(model.classes) == 1 + 30 + 30 * 29 // 2
    assert class_of(model, "/", facts=Facts(texts={"header user-agent": "bot33 bot21"})) == "default#2+14"
    (warned,) = found_in(text)
    assert warned.message.startswith("the conditions on texts overlap in too many ways")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_the_smallest_pages_decide_in_whatever_order_they_are_written(order: tuple[int, ...]) -> None:
    lines = ["</a/*>.lifetime = 2s", "</*/b*>.lifetime = 3s", "</a/b*>.lifetime = 4s"]
    text = "\n".join(lines[at] for at in order)
    model = model_of(text)
    coverage = Coverage(model)
    number = Matcher(model).classify("", "/a/bc", Facts())
    assert terms_of(model, coverage, bind(model, coverage, Environment()), number).lifetime_ms == 4_000
    assert found_in(text) == []


def test_a_condition_that_always_holds_leaves_a_default() -> None:
    model = model_of('header("x") or not header("x") => all.server_resource > 5%')
    assert model.classes[model.default].name == "default#1"
    assert [one.message for one in found_in(model.constraints[0].text)] == ["this condition always holds"]


def test_a_class_has_a_cost() -> None:
    model = model_of(
        '</a>.cost = time\n</a/b>.cost = response_header("X-Cost")\n</c>.cost = requests\n</d>.server_resource > 10%'
    )
    coverage = Coverage(model)
    binding = bind(model, coverage, Environment())
    found = {one.name: terms_of(model, coverage, binding, at) for at, one in enumerate(model.classes)}
    assert {name: (one.cost, one.cost_header) for name, one in found.items()} == {
        "/a": ("time", None),
        "/a/b": ("header", "x-cost"),
        "/c": ("requests", None),
        "/d": (None, None),
        "default": (None, None),
    }


def test_bounds_that_grow_with_nodes_do_not_fit_servers() -> None:
    text = "</api>.cost = time\n</api>.num_bytes < 10% of capacity\n</api>.num_requests < 5 * nodes\n"
    warned = [one for one in found_in(text) if "grows with the nodes" in one.message]
    assert len(warned) == 2
    assert not [one for one in found_in(text.replace("time", "bytes")) if "grows with" in one.message]
    assert not [one for one in found_in("</api>.cost = time\n</api>.num_requests < 5\n") if "grows with" in one.message]
