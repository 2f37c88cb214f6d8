"""Tickets: each outcome of a check, and that nothing but a valid ticket passes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.names import ProcessId
from qosweb.engine.local.request_ids import RequestId
from qosweb.engine.local.tickets import (
    SKEW_MS,
    TEXT_LEN_MAX,
    VALID_MS_MAX,
    Ticket,
    TicketOffice,
    TicketVerdict,
    with_ticket,
    without_ticket,
)

KEY = b"k" * 32
HERE, THERE = ProcessId("here", 7), ProcessId("there")
HOST, PAGE = "there.example:8080", "/shop/cart?item=1"
NOW = 1_700_000_000_000
RID = RequestId(b"\xb1\x24\x4d\xbf", 17)


def issued(expires_ms: int = NOW + 1000, number: int = 12, key: bytes = KEY) -> str:
    return TicketOffice(key, HERE).issue(number, 3, THERE, HOST, PAGE, expires_ms, 250, RID)


def there(used_max: int = 100) -> TicketOffice:
    return TicketOffice(KEY, THERE, used_max)


def test_a_ticket_is_good_once() -> None:
    office, text = there(), issued()
    assert office.check(text, HOST, PAGE, NOW) == (TicketVerdict.GOOD, Ticket(HERE, 12, 3, NOW + 1000, 250, RID))
    assert office.check(text, HOST, PAGE, NOW)[0] is TicketVerdict.USED
    assert office.check(issued(number=13), HOST, PAGE, NOW)[0] is TicketVerdict.GOOD


def forwarded(client: str, expires_ms: int = NOW + 1000) -> str:
    return TicketOffice(KEY, HERE).issue(12, 3, THERE, HOST, PAGE, expires_ms, 250, RID, client)


@pytest.mark.parametrize("client", ["192.0.2.7", "2001:db8::7"])
def test_the_ticket_of_a_forwarded_request_names_its_client(client: str) -> None:
    office, text = there(), forwarded(client)
    assert [office.client_in(text, HOST, PAGE, NOW) for _ in range(2)] == [client, client]  # the ticket is not used
    good = Ticket(HERE, 12, 3, NOW + 1000, 250, RID, client)
    assert office.check(text, HOST, PAGE, NOW) == (TicketVerdict.GOOD, good)
    assert office.client_in(text, HOST, PAGE, NOW) == ""  # used


def test_only_a_good_ticket_names_a_client() -> None:
    text = forwarded("192.0.2.7")
    assert there().client_in(text, HOST, "/other", NOW) == ""
    assert there().client_in(text, HOST, PAGE, NOW + 9000) == ""
    assert TicketOffice(KEY, HERE).client_in(text, HOST, PAGE, NOW) == ""
    assert TicketOffice(b"x" * 32, THERE).client_in(text, HOST, PAGE, NOW) == ""
    for other in (issued(), forwarded("unix"), "AAAA", ""):
        assert there().client_in(other, HOST, PAGE, NOW) == ""
    assert there().client_in(forwarded("fe80::1%eth0"), HOST, PAGE, NOW) == "fe80::1"


def test_a_ticket_is_short_and_safe_in_an_address() -> None:
    rid = RequestId(b"\xff" * 4, 2**63 - 1)
    office = TicketOffice(KEY, ProcessId("n" * 64, 2**63 - 1))
    text = office.issue(2**63 - 1, 5000, THERE, HOST, PAGE, NOW, 2**31, rid, "2001:db8::7")
    assert len(text) <= TEXT_LEN_MAX
    assert len(issued()) < 90
    assert all(c.isascii() and (c.isalnum() or c in "-_") for c in text)
    assert there().check(text, HOST, PAGE, NOW)[0] is TicketVerdict.GOOD


def test_ticket_carries_the_request_id() -> None:
    _, ticket = there().check(issued(), HOST, PAGE, NOW)
    assert ticket is not None
    assert str(ticket.rid) == "b1244dbf-17"


@pytest.mark.parametrize("rid", [RequestId(b"", 1), RequestId(b"12345", 1), RequestId(b"1234", -1)])
def test_invalid_request_id_makes_no_ticket(rid: RequestId) -> None:
    text = TicketOffice(KEY, HERE).issue(12, 3, THERE, HOST, PAGE, NOW, None, rid)
    assert there().check(text, HOST, PAGE, NOW) == (TicketVerdict.FORGED, None)


def test_ticket_is_valid_for_one_node_and_page() -> None:
    assert TicketOffice(KEY, ProcessId("third")).check(issued(), HOST, PAGE, NOW)[0] is TicketVerdict.OTHER_NODE
    assert TicketOffice(KEY, ProcessId("there", 1)).check(issued(), HOST, PAGE, NOW)[0] is TicketVerdict.OTHER_NODE
    for host, page in [(HOST, "/shop/cart?item=2"), (HOST, "/shop"), ("other.example", PAGE), ("", HOST + PAGE)]:
        assert there().check(issued(), host, page, NOW)[0] is TicketVerdict.OTHER_PAGE
    assert there().check(issued(), HOST.upper(), PAGE, NOW)[0] is TicketVerdict.GOOD


@pytest.mark.parametrize(
    ("after_ms", "verdict"),
    [
        (SKEW_MS, TicketVerdict.GOOD),
        (SKEW_MS + 1, TicketVerdict.LATE),
        (3_600_000, TicketVerdict.LATE),
        (-VALID_MS_MAX - SKEW_MS, TicketVerdict.GOOD),
        (-VALID_MS_MAX - SKEW_MS - 1, TicketVerdict.LATE),
    ],
)
def test_ticket_expires(after_ms: int, verdict: TicketVerdict) -> None:
    assert there().check(issued(NOW), HOST, PAGE, NOW + after_ms)[0] is verdict


def test_a_clock_that_goes_back_makes_no_used_ticket_good() -> None:
    office, text = there(), issued(NOW)
    assert office.check(text, HOST, PAGE, NOW)[0] is TicketVerdict.GOOD
    assert office.check(issued(NOW + 9000, number=1), HOST, PAGE, NOW + 9000)[0] is TicketVerdict.GOOD
    assert office.remembered == 1
    assert office.check(text, HOST, PAGE, NOW - 9000)[0] is TicketVerdict.LATE


def test_the_memory_is_bounded_and_exact() -> None:
    office = there(used_max=50)
    texts = [issued(NOW + number * 10, number) for number in range(50)]
    assert all(office.check(text, HOST, PAGE, NOW)[0] is TicketVerdict.GOOD for text in texts)
    assert office.check(issued(NOW + 999, 999), HOST, PAGE, NOW)[0] is TicketVerdict.USED  # full
    assert all(office.check(text, HOST, PAGE, NOW)[0] is TicketVerdict.USED for text in texts)
    later = NOW + SKEW_MS + 100  # ten of them are late, and forgotten
    assert office.check(issued(later, 999), HOST, PAGE, later)[0] is TicketVerdict.GOOD
    assert office.remembered == 41
    verdicts = [office.check(text, HOST, PAGE, later)[0] for text in texts]
    assert verdicts == [TicketVerdict.LATE] * 10 + [TicketVerdict.USED] * 40


def test_other_key_is_forged_and_short_key_is_rejected() -> None:
    assert there().check(issued(key=b"x" * 32), HOST, PAGE, NOW) == (TicketVerdict.FORGED, None)
    with pytest.raises(ValueError, match="at least 16"):
        TicketOffice(b"short", HERE)


def test_every_change_of_a_character_is_forged() -> None:
    text = issued()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    office = there()
    for at in range(len(text)):
        for other in alphabet:
            changed = text[:at] + other + text[at + 1 :]
            same = base64.urlsafe_b64decode(changed + "==") == base64.urlsafe_b64decode(text + "==")
            if not same:  # the last character has bits that mean nothing
                assert office.check(changed, HOST, PAGE, NOW) == (TicketVerdict.FORGED, None)


def test_other_encoding_of_the_same_bytes_is_the_same_ticket() -> None:
    office, text = there(), issued()
    spellings = {text[:-1] + other for other in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"}
    verdicts = [office.check(one, HOST, PAGE, NOW)[0] for one in spellings]
    assert verdicts.count(TicketVerdict.GOOD) == 1


@given(st.text(max_size=300) | st.binary(max_size=200).map(lambda b: base64.urlsafe_b64encode(b).decode().rstrip("=")))
def test_nothing_but_a_ticket_passes(text: str) -> None:
    assert there().check(text, HOST, PAGE, NOW) == (TicketVerdict.FORGED, None)


TARGETS = st.from_regex(r"/[a-z/]{0,5}(\?([a-z=&?]|qos-tickets=1|xqos-ticket=2){0,6})?", fullmatch=True)


@given(TARGETS, st.from_regex(r"[A-Za-z0-9_-]{0,20}", fullmatch=True))
def test_a_target_comes_out_as_it_went_in(target: str, text: str) -> None:
    assert without_ticket(target) == (target, None)
    assert without_ticket(with_ticket(target, text)) == (target, text)


@pytest.mark.parametrize(
    ("asked", "target", "text"),
    [
        ("/?qos-ticket=a&qos-ticket=b", "/", "b"),
        ("/?x=1&qos-ticket=a&y=2", "/?x=1&y=2", "a"),
        ("/?qos-ticket", "/", ""),
        ("/?qos-ticket=%00", "/", "%00"),
        ("/qos-ticket=a", "/qos-ticket=a", None),
        ("http://h/p?qos-ticket=a=b", "http://h/p", "a=b"),
        ("*", "*", None),
    ],
)
def test_targets_modified_by_clients(asked: str, target: str, text: str | None) -> None:
    assert without_ticket(asked) == (target, text)


@given(st.text(max_size=60))
def test_without_ticket_removes_all_tickets(target: str) -> None:
    rest, _ = without_ticket(target)
    assert without_ticket(rest) == (rest, None)
