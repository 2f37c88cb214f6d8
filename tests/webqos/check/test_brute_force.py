"""Classification against a brute-force oracle, in which every pattern is a regular expression.

Random patterns that overlap in all ways, random pages and hosts; random conditions on texts that overlap as well.
"""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model import conditions as c
from qosweb.webqos.policy.coverage import Coverage
from tests.webqos.support import Facts, built, model_of

SEGMENTS = st.sampled_from(["a", "b", "ab", "a.b", "a*", "*b", "*a*", "*.b", "a*b", "*.*.b", "*", "**"])
HOSTS = st.sampled_from(
    ["", "", "", "a.com", "a.com:80", "*.com", "a*.com", "*b.com:80", "*b*.com", "[::1]", "[::1]:80"]
)
PATTERNS = st.builds(
    lambda host, segments, slash: f"{host}/{'/'.join(segments)}{slash if segments else ''}",
    HOSTS,
    st.lists(SEGMENTS, max_size=3),
    st.sampled_from(["", "", "/"]),
)
ASKED_HOSTS = st.sampled_from(
    ["", "a.com", "a.com:80", "a.com:81", "ab.com", "ab.com:80", "b.com:80", "z.org", "[::1]:80"]
)
ASKED_PATHS = st.lists(
    st.sampled_from(["a", "b", "ab", "a.b", "aab", "bab", "ba", "z", "a.z", "a.z.b", "a.a.b", "z.b"]), max_size=4
).flatmap(lambda segments: st.sampled_from(["/" + "/".join(segments), "/" + "".join(f"{one}/" for one in segments)]))


def covers(pattern: str, host: str, path: str) -> bool:
    """The definition in docs/reference/webqos.md."""
    wanted, _, rest = pattern.partition("/")
    if wanted:
        port = re.search(r":[0-9]+$", wanted)
        asked = host if port else re.sub(r":[0-9]+$", "", host)
        if not re.fullmatch(re.escape(wanted).replace(r"\*", ".*"), asked):
            return False
    if path.endswith("/"):
        path += "index.html"
    if "*" not in rest:
        if rest.endswith("/"):
            return path.startswith(f"/{rest}")
        if path == f"/{rest}" or path.startswith(f"/{rest}/" if rest else "/"):
            return True
        last = rest.rpartition("/")[2]
        return "." not in last and re.fullmatch(re.escape(f"/{rest}.") + "[^/]*", path) is not None
    expression = ""
    for segment in rest.strip("/").split("/"):
        within = re.escape(segment).replace(r"\*", "[^/]*")
        expression += "(?:/[^/]+)*" if segment == "**" else f"/{within}"
    return re.fullmatch(expression, path) is not None


@given(
    st.lists(PATTERNS, min_size=1, max_size=5, unique=True), st.lists(st.tuples(ASKED_HOSTS, ASKED_PATHS), max_size=30)
)
@example(["a.com/a", "*b.com:80/a"], [("ab.com:80", "/a"), ("b.com:80", "/a")])
@example(["/a", "/*.b", "/*.*.b"], [("", "/a.b")])
def test_the_pages_of_a_class_are_those_whose_patterns_cover_the_request(
    patterns: list[str], asked: list[tuple[str, str]]
) -> None:
    text = "".join(f"<{pattern}>.num_bytes < {at + 1}\n" for at, pattern in enumerate(patterns))
    model = model_of(text)
    matcher = Matcher(model)
    coverage = Coverage(model)
    for host, path in asked:
        number = matcher.classify(host, path, Facts())
        for rule, pattern in zip(model.constraints, patterns, strict=True):
            assert (number in coverage.classes(rule.pages)) == covers(pattern, host, path), (pattern, host, path)


TEXTS = ["a", "A", "ab", "aB", "ba", "bab", "aba", "c", "", "abc", "a.com", "a.com:80", "b.com:80", "b.com"]
TESTS = st.sampled_from(
    [
        f"{subject} {rest}"
        for subject in ('header("X")', 'cookie("x")', "host", "method")
        for rest in ('= "ab"', 'in ("a", "aba")', 'like "a*"', 'like "*b*"', 'like "*a"', 'like "ab"', 'like "*:80"')
        if subject != "method" or "like" in rest
    ]
    + ["host = a.com", "host = a.com:80", 'header("X")', 'cookie("x")', 'header("X") != "a"']
)
CONDITIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        inner.map(lambda one: f"not ({one})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) and ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) or ({two[1]})"),
    ),
    max_leaves=3,
)
REQUESTS = st.fixed_dictionaries(
    {"host": st.sampled_from(TEXTS), "method": st.sampled_from(["a", "ab", "GET"])},
    optional={"header x": st.sampled_from(TEXTS), "cookie x": st.sampled_from(TEXTS)},
)


@given(st.lists(CONDITIONS, min_size=1, max_size=4, unique=True), st.lists(REQUESTS, max_size=20))
@example(['header("X") like "ab"', 'header("X") = "ab"'], [{"header x": "aB", "host": "", "method": "GET"}])
def test_a_condition_holds_for_the_class_of_a_request_if_it_holds_for_the_request(
    conditions: list[str], requests: list[dict[str, str]]
) -> None:
    text = "".join(f"{condition} => </p>.num_bytes < {at + 1}\n" for at, condition in enumerate(conditions))
    model = built(text).model
    assert model is not None
    matcher = Matcher(model)
    coverage = Coverage(model)
    for request in requests:
        facts = Facts(texts=request)
        number = matcher.classify("localhost", "/p", facts)
        for rule in model.constraints:
            assert rule.condition is not None
            held = frozenset(at for at, atom in enumerate(model.atoms) if c.holds(atom, facts))
            expected = c.holds(rule.condition, facts, held)
            assert (number in coverage.where_it_holds(rule, rule.pages, facts)) == expected, (rule.text, request)
