"""Local time agrees with the time zone database, and unknown zones get a suggestion."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos import Environment
from qosweb.webqos.model.model import decode, digest, encode
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.values import BadValue
from qosweb.webqos.zones import local_time, zone_offsets
from tests.webqos.support import found_in, model_of

# Half hours, quarters, the southern half, two shifts for Ramadan, none at all, a whole day of difference.
ZONES = (
    "Europe/Paris", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tokyo",
    "Pacific/Kiritimati", "America/St_Johns", "UTC",
)  # fmt: skip


@given(st.sampled_from(ZONES), st.integers(1_577_900_000, 4_102_300_000))
def test_local_time_is_that_of_the_database(name: str, unix_s: int) -> None:
    at = datetime.fromtimestamp(unix_s, UTC)
    there = at.astimezone(ZoneInfo(name))
    second = there.hour * 3600 + there.minute * 60 + there.second
    assert local_time(zone_offsets(name), int(at.timestamp())) == (second, there.weekday(), there.date().toordinal())


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def test_the_skipped_and_the_repeated_hour_of_daylight_saving() -> None:
    paris = zone_offsets("Europe/Paris")
    assert local_time(paris, unix("2026-03-29T00:59:59Z"))[0] == 2 * 3600 - 1
    assert local_time(paris, unix("2026-03-29T01:00:00Z"))[0] == 3 * 3600
    assert local_time(paris, unix("2026-10-25T00:30:00Z"))[0] == local_time(paris, unix("2026-10-25T01:30:00Z"))[0]


def test_conditions_are_in_the_zone_of_the_specification() -> None:
    text = "set timezone = Asia/Tokyo\nweekday = mon and time < 08:00 => </a>.server_resource < 10%\n"
    model = model_of(text)
    coverage = Coverage(model)

    def holds(at: str) -> bool:
        time_s, weekday, day = local_time(model.settings.offsets, unix(at))
        return bool(bind(model, coverage, Environment(time_s, weekday, day)).in_force)

    assert holds("2026-11-15T15:00:00Z"), "Monday 00:00 in Tokyo, still Sunday in Greenwich"
    assert not holds("2026-11-15T14:59:59Z")
    assert not holds("2026-11-16T00:00:00Z")


def test_a_zone_is_stored_as_offsets() -> None:
    model = model_of("set timezone = Europe/Paris\n</a>.num_bytes < 1\n")
    assert decode(encode(model)).settings.offsets == zone_offsets("Europe/Paris")
    assert digest(model) != digest(model_of("</a>.num_bytes < 1\n"))
    assert len(encode(model)) < 3_000


@pytest.mark.parametrize(
    "name", ["posix/Europe/Paris", "localtime", "../etc/passwd", "Europe", "Europe/", "", "+01:00"]
)
def test_unknown_zones_are_rejected(name: str) -> None:
    with pytest.raises(BadValue):
        zone_offsets(name)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Europe/Pariss", "Europe/Paris"), ("europe/paris", "Europe/Paris"), ("Paris", "Europe/Paris"),
        ("America/NewYork", "America/New_York"), ("utc", "UTC"),
    ],
)  # fmt: skip
def test_a_near_name_is_suggested(written: str, meant: str) -> None:
    (one,) = found_in(f"set timezone = {written}\n")
    assert one.message == f"unknown time zone '{written}'"
    assert one.hint == f"did you mean '{meant}'?"
    assert (one.span.start, one.span.end) == (15, 15 + len(written))


def test_a_machine_without_a_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qosweb.webqos.zones.available_timezones", set)
    (one,) = found_in("set timezone = Nowhere/Land\n")
    assert one.hint == "this machine has no time zones: install tzdata"
