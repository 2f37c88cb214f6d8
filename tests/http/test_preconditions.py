"""RFC 9110 section 13."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.dates import format_http_date
from qosweb.http.preconditions import PreconditionResult, RequestConditions, Validators, evaluate, range_applies
from tests.http.wire import wire_text

PROCEED, NOT_MODIFIED, FAILED = PreconditionResult.PROCEED, PreconditionResult.NOT_MODIFIED, PreconditionResult.FAILED

MODIFIED_S = 784_111_777
NOW_S = MODIFIED_S + 1_000_000
CURRENT = Validators('"now"', MODIFIED_S)
WEAK = Validators('W/"now"', MODIFIED_S)

AT = format_http_date(MODIFIED_S)
BEFORE = format_http_date(MODIFIED_S - 1)
AFTER = format_http_date(MODIFIED_S + 1)

READING = ["GET", "HEAD"]
WRITING = ["PUT", "POST", "DELETE", "PATCH"]
BAD_DATES = ["", "yesterday", "0", f"{AT}, {AT}", AT.lower(), AT.replace("06 Nov", "31 Nov")]


def outcome(conditions: RequestConditions, method: str = "GET", current: Validators = CURRENT) -> PreconditionResult:
    return evaluate(conditions, method, current, NOW_S)


# If-Match


@pytest.mark.parametrize("value", ["*", '"now"', '"old", "now"', '"a,b","now"', ', "now" ,'])
def test_13_1_1_if_match_holds_for_star_or_a_listed_tag(value: str) -> None:
    assert outcome(RequestConditions(if_match=value)) is PROCEED
    assert outcome(RequestConditions(if_match=value), "PUT") is PROCEED


@pytest.mark.parametrize("value", ['"old"', '"old", "older"', "", "now", '"now', 'x "now"', '"now", *', "**"])
@pytest.mark.parametrize("method", READING + WRITING)
def test_13_1_1_if_match_fails_for_other_tags_and_for_garbage(value: str, method: str) -> None:
    assert outcome(RequestConditions(if_match=value), method) is FAILED


def test_13_1_1_if_match_uses_strong_comparison() -> None:
    assert outcome(RequestConditions(if_match='W/"now"')) is FAILED
    assert outcome(RequestConditions(if_match='W/"now"'), current=WEAK) is FAILED
    assert outcome(RequestConditions(if_match='"now"'), current=WEAK) is FAILED
    assert outcome(RequestConditions(if_match="*"), current=WEAK) is PROCEED


# If-None-Match


@pytest.mark.parametrize("value", ["*", '"now"', 'W/"now"', '"old", "now"', 'W/"old",W/"now"'])
def test_13_1_2_if_none_match_is_false_for_star_or_a_listed_tag(value: str) -> None:
    assert [outcome(RequestConditions(if_none_match=value), method) for method in READING] == [NOT_MODIFIED] * 2
    assert [outcome(RequestConditions(if_none_match=value), method) for method in WRITING] == [FAILED] * 4


@pytest.mark.parametrize("value", ['"old"', "", "now", '"now', '"now" x', "now*", "***"])
@pytest.mark.parametrize("method", READING + WRITING)
def test_13_1_2_if_none_match_is_true_for_other_tags_and_for_garbage(value: str, method: str) -> None:
    assert outcome(RequestConditions(if_none_match=value), method) is PROCEED


def test_13_1_2_if_none_match_uses_weak_comparison() -> None:
    assert outcome(RequestConditions(if_none_match='W/"now"')) is NOT_MODIFIED
    assert outcome(RequestConditions(if_none_match='"now"'), current=WEAK) is NOT_MODIFIED


# If-Modified-Since


@pytest.mark.parametrize(("value", "expected"), [(BEFORE, PROCEED), (AT, NOT_MODIFIED), (AFTER, NOT_MODIFIED)])
@pytest.mark.parametrize("method", READING)
def test_13_1_3_earlier_or_equal_is_not_modified(value: str, expected: PreconditionResult, method: str) -> None:
    assert outcome(RequestConditions(if_modified_since=value), method) is expected


@pytest.mark.parametrize("value", ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
def test_13_1_3_obsolete_formats_count(value: str) -> None:
    assert outcome(RequestConditions(if_modified_since=value)) is NOT_MODIFIED


@pytest.mark.parametrize("value", BAD_DATES)
def test_13_1_3_ignored_if_not_a_valid_date_or_more_than_one(value: str) -> None:
    assert outcome(RequestConditions(if_modified_since=value)) is PROCEED


@pytest.mark.parametrize("method", WRITING)
def test_13_1_3_ignored_if_neither_get_nor_head(method: str) -> None:
    assert outcome(RequestConditions(if_modified_since=AFTER), method) is PROCEED


@pytest.mark.parametrize("none_match", ['"old"', "", "garbage"])
def test_13_1_3_ignored_if_if_none_match_is_there(none_match: str) -> None:
    assert outcome(RequestConditions(if_none_match=none_match, if_modified_since=AFTER)) is PROCEED


# If-Unmodified-Since


@pytest.mark.parametrize(("value", "expected"), [(BEFORE, FAILED), (AT, PROCEED), (AFTER, PROCEED)])
@pytest.mark.parametrize("method", READING + WRITING)
def test_13_1_4_earlier_or_equal_is_unmodified(value: str, expected: PreconditionResult, method: str) -> None:
    assert outcome(RequestConditions(if_unmodified_since=value), method) is expected


@pytest.mark.parametrize("value", BAD_DATES)
def test_13_1_4_ignored_if_not_a_valid_date_or_more_than_one(value: str) -> None:
    assert outcome(RequestConditions(if_unmodified_since=value), "PUT") is PROCEED


def test_13_1_4_ignored_if_if_match_is_there() -> None:
    assert outcome(RequestConditions(if_match='"now"', if_unmodified_since=BEFORE)) is PROCEED


# Order


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT"])
def test_13_2_1_methods_that_select_nothing_ignore_conditions(method: str) -> None:
    everything_false = RequestConditions('"old"', "*", AFTER, BEFORE)
    assert outcome(everything_false, method) is PROCEED


def test_a_request_without_conditions_proceeds() -> None:
    assert [outcome(RequestConditions(), method) for method in READING + WRITING] == [PROCEED] * 6


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        # 1 before 3: a false If-Match fails, though If-None-Match would say 304
        (RequestConditions(if_match='"old"', if_none_match='"now"'), FAILED),
        # 1 true, then on to 3
        (RequestConditions(if_match='"now"', if_none_match='"now"'), NOT_MODIFIED),
        (RequestConditions(if_match='"now"', if_none_match='"old"'), PROCEED),
        # 1 true, then on to 4
        (RequestConditions(if_match='"now"', if_modified_since=AT), NOT_MODIFIED),
        # 2 before 3 and 4
        (RequestConditions(if_unmodified_since=BEFORE, if_none_match='"now"'), FAILED),
        (RequestConditions(if_unmodified_since=BEFORE, if_modified_since=AT), FAILED),
        # 2 true, then on to 3 and 4
        (RequestConditions(if_unmodified_since=AT, if_none_match='"now"'), NOT_MODIFIED),
        (RequestConditions(if_unmodified_since=AT, if_modified_since=AT), NOT_MODIFIED),
        (RequestConditions(if_unmodified_since=AT, if_modified_since=BEFORE), PROCEED),
        # 2 only without If-Match
        (RequestConditions(if_match="*", if_unmodified_since=BEFORE), PROCEED),
        # 3 rules out 4
        (RequestConditions(if_none_match='"old"', if_modified_since=AT), PROCEED),
        (RequestConditions(if_none_match='"now"', if_modified_since=BEFORE), NOT_MODIFIED),
        # 5 is none of these: a false If-Range changes what is sent, not whether
        (RequestConditions(if_range='"old"'), PROCEED),
    ],
)
def test_13_2_2_precedence(conditions: RequestConditions, expected: PreconditionResult) -> None:
    assert outcome(conditions) is expected


# If-Range


def applies(if_range: str | None, current: Validators = CURRENT, now_s: int = NOW_S) -> bool:
    return range_applies(RequestConditions(if_range=if_range), current, now_s)


def test_14_2_without_if_range_a_range_applies() -> None:
    assert applies(None)


def test_13_1_5_an_exactly_matching_tag_applies() -> None:
    assert applies('"now"')
    assert not applies('"old"')


def test_13_1_5_tags_are_compared_strongly() -> None:
    assert not applies('W/"now"')
    assert not applies('W/"now"', WEAK)
    assert not applies('"now"', WEAK)


@pytest.mark.parametrize("value", ['"now", "old"', '"now" ', ' "now"', '"now"x', "*", "", "now", '"', 'W/"', '""'])
def test_13_1_5_only_one_tag_or_date_is_valid(value: str) -> None:
    assert not applies(value)


def test_13_1_5_a_date_must_match_exactly() -> None:
    assert applies(AT)
    assert not applies(BEFORE)
    assert not applies(AFTER)


@pytest.mark.parametrize("value", BAD_DATES)
def test_13_1_5_an_invalid_date_does_not_match(value: str) -> None:
    assert not applies(value)


@pytest.mark.parametrize(("age_s", "expected"), [(-5, False), (0, False), (1, True), (60, True)])
def test_8_8_2_2_a_date_is_strong_once_its_second_is_over(age_s: int, expected: bool) -> None:
    assert applies(AT, now_s=MODIFIED_S + age_s) is expected


FIELDS = st.none() | wire_text(f'"now" W/"now" * , {AT} {BEFORE}')


@given(
    st.builds(RequestConditions, FIELDS, FIELDS, FIELDS, FIELDS, FIELDS),
    st.sampled_from(READING + WRITING + ["OPTIONS", "", "get"]),
    st.sampled_from([CURRENT, WEAK]),
    st.integers(),
)
def test_garbage_never_raises(conditions: RequestConditions, method: str, current: Validators, now_s: int) -> None:
    assert evaluate(conditions, method, current, now_s) in PreconditionResult
    assert range_applies(conditions, current, now_s) in (True, False)


@given(wire_text('"now" , *').filter(lambda text: "now" not in text and text != "*"))
def test_garbage_matches_nothing(value: str) -> None:
    assert outcome(RequestConditions(if_none_match=value)) is PROCEED
    assert outcome(RequestConditions(if_match=value)) is FAILED
    assert not applies(value)
