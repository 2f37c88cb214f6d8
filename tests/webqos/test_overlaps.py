"""The subsets of globs that a text can match, compared with a search over all short texts."""

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qosweb.webqos.globs import matches
from qosweb.webqos.overlaps import Overlaps, TooManyOverlaps

SHORT = ["".join(letters) for length in range(1, 6) for letters in product("ab.z", repeat=length)]
GLOBS = st.lists(
    st.text("ab.*", min_size=1, max_size=5).filter(lambda glob: "*" in glob and "**" not in glob),
    max_size=4,
    unique=True,
)
NAMES = st.sets(st.text("ab.", min_size=1, max_size=3), max_size=3)
STEMS = st.sets(st.text("ab", min_size=1, max_size=2), max_size=2)


@given(GLOBS, NAMES, STEMS)
@example(["*ab*", "*ba*", "*ab*ba*"], set(), set())  # in either order, or sharing a letter
@example(["*.a", "*.*.a"], set(), {"b"})
@example(["a*.b.*"], set(), {"a"})
def test_every_subset_matched_by_short_texts_is_found(globs: list[str], names: set[str], stems: set[str]) -> None:
    def way(text: str) -> tuple[object, ...]:
        stem, dot, _ = text.partition(".")
        return (
            [matches(glob, text) for glob in globs],
            text if text in names else "",
            stem if dot and stem in stems else "",
        )

    overlaps = Overlaps(globs)
    found = {*names, *overlaps.texts(10_000)}
    for stem in stems:
        found.update(overlaps.texts(10_000, f"{stem}."))
    ways = [way(text) for text in found]
    assert all(way(text) in ways for text in SHORT)


def test_case_does_not_matter_for_globs_but_for_texts() -> None:
    found = Overlaps(["go*"], ["gold"], any_case=True).texts(1_000)
    ways = {(text.lower().startswith("go"), text == "gold") for text in found}
    assert ways == {(True, True), (True, False), (False, False)}


@given(st.lists(GLOBS.filter(bool), max_size=3))
def test_a_group_counts_as_one_glob(groups: list[list[str]]) -> None:
    def way(text: str) -> list[bool]:
        return [any(matches(glob, text) for glob in group) for group in groups]

    ways = [way(text) for text in Overlaps(groups).texts(10_000)]
    assert all(way(text) in ways for text in SHORT)


def test_a_large_group_has_two_outcomes() -> None:
    assert len(Overlaps([[f"*word{number}*" for number in range(400)]]).texts(40_000)) == 2


def test_too_many_overlaps_are_rejected_quickly() -> None:
    with pytest.raises(TooManyOverlaps):
        Overlaps([f"*word{number}*" for number in range(400)]).texts(40_000)
