"""Classes are correct: a rule covers the class of a request if and only if it covers the request."""

from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos.check.conditions import expand
from qosweb.webqos.match.matcher import Matcher, PageSetMatcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import Situation
from qosweb.webqos.policy.coverage import Coverage
from tests.webqos.support import model_of

LETS = """
let gold = header("X-Plan") = "gold"
let ours = client in (10.0.0.0/8, ::1)
let large = size > 1MB
let odd = gold and not ours or large
let night = time in 22:00..06:00
"""
RULES = [
    "</a>.num_bytes < 1",
    "</a/b>.num_bytes < 2",
    "</*/b>.num_bytes < 3",
    "gold => </a>.num_bytes < 4",
    "not gold and ours => </a>.num_bytes < 5",
    "odd => all.num_bytes < 6",
    "night and (gold or large) => </a/b>.num_bytes < 7",
    "night or ours => default.num_bytes < 8",
    "links(</hub>).num_bytes < 9",
    "gold => links(</hub>).num_bytes < 10",
    "large and method = POST => </*/b>.num_bytes < 11 as posts",
    'header("X-Plan") in ("gold", "silver") => default.num_bytes < 12 as payers',
    "client accessed(</a>) within 30s => </a/b>.num_bytes < 13",
    "not large => </a> before </c>",
]
FACTS = st.fixed_dictionaries(
    {("method", ""): st.sampled_from(["GET", "POST"]), ("time", ""): st.sampled_from([0, 12 * 3600])},
    optional={
        ("header", "x-plan"): st.sampled_from(["gold", "silver", "bronze"]),
        ("client", ""): st.sampled_from(["10.1.1.1", "::1", "192.0.2.1"]),
        ("size", ""): st.sampled_from([5, 2 << 20]),
    },
)


@given(
    st.lists(st.sampled_from(RULES), min_size=1, max_size=6, unique=True),
    st.sampled_from(["/a", "/a/x", "/a/b", "/x/b", "/other", "/c"]),
    FACTS,
    st.booleans(),
    st.booleans(),
)
def test_a_rule_covers_a_class_if_it_covers_its_requests(
    rules: list[str], path: str, chosen: dict[tuple[str, str], int | str], linked: bool, accessed: bool
) -> None:
    model = model_of(LETS + "\n".join(rules))
    facts = dict(chosen)
    for number, page_set in enumerate(model.page_sets):
        facts["linked", str(number)] = int(linked)
        if accessed and page_set.name == "/a":
            facts["client_accessed", str(number)] = 5_000
    situation = Situation(dict(facts))
    number = Matcher(model).classify("localhost", path, situation)
    coverage = Coverage(model)
    everything = PageSetMatcher(model, range(len(model.page_sets)))
    in_force = {pages for rule in model.rules for pages in ([rule.pages] if hasattr(rule, "pages") else rule.chain)}
    covering = set(everything.signature("localhost", path))
    is_default = not covering & in_force
    for rule in model.rules:
        pages = rule.pages if hasattr(rule, "pages") else rule.chain[0]
        kind = model.page_sets[pages].kind
        about_page = {"pages": pages in covering, "all": True, "default": is_default, "links": linked}[kind]
        holds = rule.condition is None or c.holds(expand(rule.condition, model), situation)
        assert (number in coverage.where_it_holds(rule, pages, situation)) == (about_page and holds), rule.text
