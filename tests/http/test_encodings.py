"""RFC 9110 sections 12.5.3 and 12.4.2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.encodings import choose_encoding
from tests.http.wire import wire_text

GZIP, BR, ZSTD = ("gzip", 300), ("br", 200), ("zstd", 250)
ALL = [GZIP, BR, ZSTD]


def test_12_5_3_without_the_field_identity() -> None:
    assert choose_encoding(None, ALL) is None


@pytest.mark.parametrize("value", ["", " ", ",", " , ,"])
def test_12_5_3_an_empty_field_wants_no_coding(value: str) -> None:
    assert choose_encoding(value, ALL) is None


def test_nothing_available() -> None:
    assert choose_encoding("gzip, br, *", []) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("compress, gzip", "gzip"),
        ("", None),
        ("*", "br"),
        ("compress;q=0.5, gzip;q=1.0", "gzip"),
        ("gzip;q=1.0, identity; q=0.5, *;q=0", "gzip"),
    ],
)
def test_12_5_3_examples_of_the_section(value: str, expected: str | None) -> None:
    assert choose_encoding(value, ALL) == expected


def test_12_5_3_rule_3_only_listed_codings_are_acceptable() -> None:
    assert choose_encoding("gzip, deflate", ALL) == "gzip"
    assert choose_encoding("deflate", ALL) is None


def test_the_highest_weight_wins_whatever_the_size() -> None:
    assert choose_encoding("gzip;q=1, br;q=0.9, zstd;q=0.999, identity;q=0.1", ALL) == "gzip"
    assert choose_encoding("gzip;q=0.2, br;q=0.3, zstd;q=0.4, identity;q=0.1", ALL) == "zstd"


def test_among_equal_weights_the_smallest_body_wins() -> None:
    assert choose_encoding("gzip, br, zstd", ALL) == "br"
    assert choose_encoding("gzip, br", [("gzip", 10), ("br", 11)]) == "gzip"
    assert choose_encoding("gzip;q=0.5, zstd;q=0.50, identity;q=0.5", ALL) == "zstd"


def test_among_equal_sizes_the_first_available_wins() -> None:
    assert choose_encoding("br, gzip", [("gzip", 10), ("br", 10)]) == "gzip"


def test_identity_gives_way_at_the_same_weight() -> None:
    assert choose_encoding("identity, gzip", ALL) == "gzip"
    assert choose_encoding("gzip", ALL) == "gzip"


def test_identity_wins_with_a_higher_weight() -> None:
    assert choose_encoding("identity, gzip;q=0.9", ALL) is None
    assert choose_encoding("identity;q=0.6, *;q=0.5", ALL) is None


def test_identity_that_is_not_named_comes_after_whatever_is() -> None:
    assert choose_encoding("gzip;q=0.5", ALL) == "gzip"
    assert choose_encoding("br;q=0.001", ALL) == "br"


def test_identity_that_is_not_named_has_the_weight_of_the_star() -> None:
    assert choose_encoding("gzip;q=0.5, *;q=0.1", [GZIP]) == "gzip"
    assert choose_encoding("gzip;q=0.5, *;q=0.6", [GZIP]) is None


def test_12_5_3_the_star_stands_for_codings_not_listed() -> None:
    assert choose_encoding("br;q=0, *", ALL) == "zstd"
    assert choose_encoding("gzip;q=0.9, *;q=0.8", ALL) == "gzip"
    assert choose_encoding("gzip, *;q=0", ALL) == "gzip"


def test_12_4_2_weight_0_means_not_acceptable() -> None:
    assert choose_encoding("gzip;q=0", ALL) is None
    assert choose_encoding("gzip;q=0.000, br;q=0.001, identity;q=0", ALL) == "br"
    assert choose_encoding("*;q=0", ALL) is None


@pytest.mark.parametrize("value", ["identity;q=0", "*;q=0", "identity;q=0, gzip;q=0", "identity;q=0, compress"])
def test_departure_refusing_everything_still_gets_identity(value: str) -> None:
    assert choose_encoding(value, ALL) is None


def test_12_5_3_refusing_identity_takes_anything_acceptable() -> None:
    assert choose_encoding("identity;q=0, gzip;q=0.001", ALL) == "gzip"
    assert choose_encoding("identity;q=0, *;q=0.1", ALL) == "br"


def test_8_4_1_3_x_gzip_is_gzip() -> None:
    assert choose_encoding("x-gzip", ALL) == "gzip"
    assert choose_encoding("X-GZIP;q=0, *", [GZIP]) is None


def test_8_4_1_codings_are_case_insensitive() -> None:
    assert choose_encoding("GZip", ALL) == "gzip"
    assert choose_encoding("Identity;Q=0.5, BR", ALL) == "br"


def test_5_6_3_optional_whitespace() -> None:
    assert choose_encoding(" \tgzip\t ;\t q=0.9 ,identity ; q=0.1", ALL) == "gzip"


@pytest.mark.parametrize(
    "member",
    [
        "br;q=2",
        "br;q=1.001",
        "br;q=0.0001",
        "br;q=-1",
        "br;q=.5",
        "br;q= 1",
        "br;q =1",
        "br;q",
        "br;q=",
        "br;",
        "br;x=1",
        "br;q=1;q=1",
        "br;q=1e0",
        "br;q=\u0661",
        "br gzip",
        "b/r",
        '"br"',
        "br=1",
        ";q=1",
    ],
)
def test_malformed_members_are_ignored(member: str) -> None:
    assert choose_encoding(member, ALL) is None
    assert choose_encoding(f"{member}, gzip", ALL) == "gzip"
    assert choose_encoding(f"gzip, {member}", ALL) == "gzip"


@pytest.mark.parametrize("qvalue", ["1", "1.", "1.0", "1.00", "1.000", "0.5", "0.25", "0.125", "0.001"])
def test_12_4_2_forms_of_a_weight(qvalue: str) -> None:
    assert choose_encoding(f"gzip;q={qvalue}, *;q=0", ALL) == "gzip"


@pytest.mark.parametrize("qvalue", ["0", "0.", "0.0", "0.00", "0.000"])
def test_12_4_2_forms_of_zero(qvalue: str) -> None:
    assert choose_encoding(f"gzip;q={qvalue}, identity;q=0", [GZIP]) is None


def test_12_4_2_decimals_compare_as_numbers() -> None:
    assert choose_encoding("gzip;q=0.9, br;q=0.12, identity;q=0.1", ALL) == "gzip"


def test_the_first_mention_counts() -> None:
    assert choose_encoding("gzip;q=0, gzip", [GZIP]) is None
    assert choose_encoding("gzip, x-gzip;q=0", [GZIP]) == "gzip"


@pytest.mark.parametrize(
    "value",
    [
        "gzip, deflate, br, zstd",  # browsers
        "gzip, deflate, br",
        "br;q=1.0, gzip;q=0.8, *;q=0.1",
        "*",
    ],
)
def test_what_clients_really_send(value: str) -> None:
    assert choose_encoding(value, ALL) == "br"


@given(wire_text("gzip x-gzip br identity * ; q= q=0 q=0.5 , gzip;q=0.1, \t"))
def test_garbage_never_raises(value: str) -> None:
    assert choose_encoding(value, ALL) in {None, "gzip", "br", "zstd"}


MEMBERS = st.tuples(st.sampled_from(["gzip", "br", "zstd", "identity", "*"]), st.integers(0, 1000))


@given(st.lists(MEMBERS, unique_by=lambda member: member[0]))
def test_agrees_with_the_rules_written_out(members: list[tuple[str, int]]) -> None:
    weights = dict(members)
    value = ", ".join(f"{coding};q={weight / 1000:.3f}" for coding, weight in members)
    chosen = choose_encoding(value, ALL)

    identity = weights.get("identity", weights.get("*", 0))
    weight_of = {coding: weights.get(coding, weights.get("*", 0)) for coding, _ in ALL}
    acceptable = [(-weight_of[coding], size, coding) for coding, size in ALL if weight_of[coding] > 0]
    best = min(acceptable, default=None)
    assert chosen == (best[2] if best is not None and -best[0] >= identity else None)
