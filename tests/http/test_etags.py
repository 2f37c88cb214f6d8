"""RFC 9110 sections 8.8.3 and 5.6.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.etags import parse_etags, same_strongly, same_weakly
from tests.http.wire import wire_text

ETAG_CHARACTERS = st.characters(min_codepoint=0x21, max_codepoint=0x10FFFF, exclude_characters='"\x7f')
ETAGS = st.builds("{}{}".format, st.sampled_from(["", "W/"]), st.text(ETAG_CHARACTERS).map('"{}"'.format))


@pytest.mark.parametrize(
    ("one", "other", "strongly", "weakly"),
    [
        ('W/"1"', 'W/"1"', False, True),
        ('W/"1"', 'W/"2"', False, False),
        ('W/"1"', '"1"', False, True),
        ('"1"', '"1"', True, True),
    ],
)
def test_8_8_3_2_the_table_of_comparisons(one: str, other: str, strongly: bool, weakly: bool) -> None:
    assert same_strongly(one, other) is same_strongly(other, one) is strongly
    assert same_weakly(one, other) is same_weakly(other, one) is weakly


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        ('"xyzzy"', ['"xyzzy"']),
        ('W/"xyzzy"', ['W/"xyzzy"']),
        ('""', ['""']),
        ('"xyzzy", "r2d2xxxx", "c3piozzzz"', ['"xyzzy"', '"r2d2xxxx"', '"c3piozzzz"']),
        ('"a,b", W/"c, d"', []),  # a comma belongs to a tag, a space does not
        ('"a,b",W/",","d"', ['"a,b"', 'W/","', '"d"']),
        ('"a"\t , \t"b"', ['"a"', '"b"']),
        ('"back\\slash"', ['"back\\slash"']),  # no escapes in an opaque-tag
        ('"W/"', ['"W/"']),
        ('"\u00fc\udcff"', ['"\u00fc\udcff"']),  # obs-text
    ],
)
def test_8_8_3_lists_of_tags(value: str, tags: list[str]) -> None:
    assert parse_etags(value) == tags


@pytest.mark.parametrize("value", [',"a",, ,"b",', ' ,\t"a" , "b" ', '"a",,,,,,,,,"b"'])
def test_5_6_1_2_empty_members_are_ignored(value: str) -> None:
    assert parse_etags(value) == ['"a"', '"b"']


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        " ",
        "*",
        "xyzzy",
        '"xyzzy',
        'xyzzy"',
        '"',
        'w/"xyzzy"',  # 8.8.3: W/ is case-sensitive
        'W/ "xyzzy"',
        "W/xyzzy",
        '"a" "b"',
        '"a""b"',
        '"a"; "b"',
        '"a", b',
        '"a", *',
        '*, "a"',
        '"a", "b',
        '"a\n"',
        '"a\x7f"',
        "'a'",
    ],
)
def test_a_malformed_list_counts_as_empty(value: str) -> None:
    assert parse_etags(value) == []


@given(st.lists(ETAGS))
def test_what_is_joined_is_split_again(tags: list[str]) -> None:
    assert parse_etags(", ".join(tags)) == tags


@given(wire_text('W/ "a" "b" , * W/"a", \\ \t'))
def test_garbage_never_raises(value: str) -> None:
    assert all(tag in value and tag.endswith('"') for tag in parse_etags(value))


@pytest.mark.parametrize("value", ["," * 100_000 + "x", '"' * 100_000, 'W/"' * 50_000, '"a",' * 50_000 + "x"])
def test_long_lists_take_linear_time(value: str) -> None:
    assert parse_etags(value) == []
