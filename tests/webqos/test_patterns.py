"""Pages that a pattern covers: a table, a reference implementation, and the automaton agree."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos.match.automaton import PatternAutomaton, TooManyWays
from qosweb.webqos.patterns import INDEX, PagePattern, parse_pattern, path_segments

COVERED = [
    # pattern, host, path, covered
    ("/free", "any", "/free", True),
    ("/free", "any", "/free/", True),
    ("/free", "any", "/free/a/b.html", True),
    ("/free", "any", "/free.html", True),
    ("/free", "any", "/free.tar.gz", True),
    ("/free", "any", "/free.html/x", False),
    ("/free", "any", "/freedom", False),
    ("/free", "any", "/a/free", False),
    ("/free", "any", "/Free", False),
    ("free", "any", "/free/x", True),
    ("style.css", "any", "/style.css", True),
    ("style.css", "any", "/style.css.map", False),
    ("/index", "any", "/", True),
    ("/index.html", "any", "/", True),
    ("/index.html", "any", "/x/", False),
    ("/", "any", "/", True),
    ("/", "any", "/x/y", True),
    ("/x/", "any", "/x/y", True),
    ("/x/", "any", "/x/", True),
    ("/x/", "any", "/x.html", False),
    ("/shop/**", "any", "/shop", True),
    ("/shop/**", "any", "/shop/a/b", True),
    ("/shop/**", "any", "/shop.html", False),
    ("/cart/*", "any", "/cart/x", True),
    ("/cart/*", "any", "/cart/", True),
    ("/cart/*", "any", "/cart", False),
    ("/cart/*", "any", "/cart/x/y", False),
    ("**/*.jpg", "any", "/a.jpg", True),
    ("**/*.jpg", "any", "/a/b/c.jpg", True),
    ("**/*.jpg", "any", "/a/b/c.jpeg", False),
    ("*.pdf", "any", "/a.pdf", True),
    ("*.pdf", "any", "/x/a.pdf", False),
    ("/a/**/z", "any", "/a/z", True),
    ("/a/**/z", "any", "/a/b/c/z", True),
    ("/a/**/z", "any", "/a/b/c/z/d", False),
    ("/img-*-*.png", "any", "/img-1-2.png", True),
    ("/img-*-*.png", "any", "/img-1.png", False),
    ("/caf%C3%A9", "any", "/café", True),
    ("www.x.com/free", "www.x.com", "/free", True),
    ("www.x.com/free", "www.x.com:8080", "/free", True),
    ("www.x.com/free", "x.com", "/free", False),
    ("www.x.com:8080/free", "www.x.com:8080", "/free", True),
    ("www.x.com:8080/free", "www.x.com", "/free", False),
    ("WWW.X.com/free", "www.x.com", "/free", True),
    ("*.x.com/free", "a.b.x.com", "/free", True),
    ("*.x.com/free", "x.com", "/free", False),
    ("localhost/free", "localhost:80", "/free", True),
    ("www.x.com/", "www.x.com", "/any/thing", True),
]


@pytest.mark.parametrize(("text", "host", "path", "covered"), COVERED)
def test_pages_covered_by_a_pattern(text: str, host: str, path: str, covered: bool) -> None:
    automaton = PatternAutomaton([parse_pattern(text, None)])
    assert bool(automaton.cover(host, path_segments(path)).accepts) is covered


def test_the_site_is_the_host_of_patterns_without_one() -> None:
    assert parse_pattern("/free", "www.x.com") == parse_pattern("www.x.com/free", None)
    assert parse_pattern("b.com/free", "www.x.com").host == "b.com"
    assert parse_pattern("free", "www.x.com").host == "www.x.com"


def covers(pattern: PagePattern, path: str) -> bool:
    """The reference implementation of the definition: one regular expression per pattern."""
    wanted = "".join(
        r"(?:/[^/]+)*" if segment == "**" else "/" + re.escape(segment).replace(r"\*", "[^/]*")
        for segment in pattern.segments
    )
    if pattern.is_plain:
        extension = r"|\.[^/]*" if pattern.segments and "." not in pattern.segments[-1] else ""
        wanted += f"(?:(?:/[^/]+)*{extension})"
    full = path + INDEX if path.endswith("/") else path
    return re.fullmatch(wanted, full) is not None


SEGMENT = st.sampled_from(["a", "b", "c.html", "index.html", "*", "**", "a*", "*.html", "*b*", "a.html"])
PATTERNS = st.lists(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join).map(lambda path: "/" + path), max_size=6)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "c.html", "a.html", "x", "xby.html"]), min_size=1, max_size=4)


@given(PATTERNS, PATHS, st.booleans())
def test_the_automaton_agrees_with_the_definition(texts: list[str], path: list[str], is_directory: bool) -> None:
    patterns = [parse_pattern(text, None) for text in texts]
    where = "/" + "/".join(path) + ("/" if is_directory else "")
    automaton = PatternAutomaton(patterns)
    expected = frozenset(at for at, pattern in enumerate(patterns) if covers(pattern, where))
    for _ in range(2):  # the second time it is remembered
        assert automaton.cover("h", path_segments(where)).accepts == expected, where


@given(PATTERNS, st.lists(PATHS, max_size=5))
def test_every_cover_of_a_page_is_reachable(texts: list[str], paths: list[list[str]]) -> None:
    automaton = PatternAutomaton(parse_pattern(text, None) for text in texts)
    foreseen = automaton.reachable(100_000)
    for path in paths:
        assert automaton.cover("h", path).accepts in foreseen


def test_too_many_overlaps_are_refused() -> None:
    automaton = PatternAutomaton(parse_pattern(f"/*{chr(97 + at)}*", None) for at in range(26))
    with pytest.raises(TooManyWays):
        automaton.reachable(10_000)


def test_requests_do_not_grow_the_automaton_without_bound() -> None:
    automaton = PatternAutomaton([parse_pattern("/a/**", None), parse_pattern("www.x.com/b", None)])
    for number in range(10_000):
        automaton.cover(f"host{number}", ["a", f"x{number}"])
    assert len(automaton._starts) <= 1_024
    assert sum(len(state.next) for state in automaton._states.values()) < 10_000
