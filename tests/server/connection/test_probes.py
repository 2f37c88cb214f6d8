"""Malformed, ambiguous and smuggled requests against a running node, complete and in pieces.

A rejection is one error response and a close: never two responses, never a page. Pieces are sent in step with the
server: a request on another connection shows that the server has read the previous piece.
"""

import re
from collections.abc import Iterator

import pytest

from tests.server.connection.probes import FIELDS, GOOD, HOSTS, REQUEST_LINES, Probe
from tests.server.connection.probes_accepted import ACCEPTED, Accepted
from tests.server.connection.probes_framing import BODIES, CHUNKS, FRAMING, PIPELINES, post
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

REFUSED = (*REQUEST_LINES, *HOSTS, *FIELDS, *FRAMING, *CHUNKS, *BODIES, *PIPELINES)
SPLIT_EVERYWHERE_MAX = 160  # bytes; longer probes are split at some places
BYTE_BY_BYTE_MAX = 400

GOOD_BODY = b"<p>good"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("probes")
    site = scratch / "site"
    site.mkdir()
    for name in ("index.html", "good.html", "caf\u00e9.html"):
        (site / name).write_bytes(GOOD_BODY)
    (site / "smuggled.html").write_text("<p>smuggled")
    patient = ("--header-timeout", "5m", "--idle-timeout", "5m")  # on a busy machine, byte by byte takes its time
    with RunningNode(site, scratch, *patient) as running:
        yield running


@pytest.fixture(scope="module")
def control(node: RunningNode) -> Iterator[RawConnection]:
    with node.connect() as connection:
        yield connection


def answers(raw: bytes, *, head_only: bool = False) -> list[tuple[int, dict[bytes, bytes], bytes]]:
    """Status, fields and body of every response; no bytes may be left over."""
    found = []
    while raw:
        head, end, raw = raw.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        match = re.fullmatch(rb"HTTP/1\.1 ([0-9]{3}) [A-Z][ -~]*", status_line)
        assert end, f"an incomplete head: {head!r}"
        assert match, f"not a status line: {status_line!r}"
        fields = {name.lower(): value for name, value in (line.split(b": ", 1) for line in lines)}
        assert len(fields) == len(lines), f"a repeated field: {lines}"
        status = int(match[1])
        size = 0 if head_only or status in (204, 304) else int(fields[b"content-length"])
        assert len(raw) >= size, f"an incomplete body: {raw!r}"
        found.append((status, fields, raw[:size]))
        raw = raw[size:]
    return found


def send_all_or_some(connection: RawConnection, data: bytes) -> None:
    """Send; the server may have responded and closed before the end."""
    try:
        connection.send(data)
    except (BrokenPipeError, ConnectionResetError):
        return


def in_step(control: RawConnection) -> None:
    """Returns when the server has read everything that was sent before.

    It asks twice: the first response may come from the same turn of the loop, before it reads another connection.
    """
    for _ in range(2):
        control.send(GOOD)
        assert control.read_reply().status == 200


def assert_refused(probe: Probe, raw: bytes, how: str, allowed: frozenset[int]) -> None:
    got = answers(raw, head_only=probe.is_head)
    statuses = tuple(status for status, _, _ in got)
    assert len(statuses) == len(probe.before) + 1, f"{how}: {statuses}"
    assert statuses[:-1] == probe.before, f"{how}: {statuses}"
    assert statuses[-1] in allowed, f"{how}: {statuses}"
    assert got[-1][1][b"connection"] == b"close", how
    assert b"smuggled" not in raw, how


@pytest.mark.parametrize("probe", REFUSED, ids=lambda probe: probe.title)
def test_refused(node: RunningNode, probe: Probe) -> None:
    for good_ones in (0, 1, 1, 1):  # repeated, as the server may know heads that come again
        with node.connect() as connection:
            for _ in range(good_ones):
                assert connection.get("/good.html").body == GOOD_BODY
            send_all_or_some(connection, probe.data)
            raw = connection.read_to_end()
        assert_refused(probe, raw, f"in one piece, after {good_ones} good", frozenset({probe.refused}))
    assert node.get("/good.html").body == GOOD_BODY


@pytest.mark.parametrize("probe", REFUSED, ids=lambda probe: probe.title)
def test_refused_when_split(node: RunningNode, control: RawConnection, probe: Probe) -> None:
    for at, raw in split_everywhere(node, control, probe.data):
        assert_refused(probe, raw, f"split after {probe.data[:at]!r}", probe.refused_in_pieces)


@pytest.mark.parametrize(
    "probe", [probe for probe in REFUSED if len(probe.data) <= BYTE_BY_BYTE_MAX], ids=lambda probe: probe.title
)
def test_refused_byte_by_byte(node: RunningNode, control: RawConnection, probe: Probe) -> None:
    assert_refused(probe, byte_by_byte(node, control, probe.data), "byte by byte", probe.refused_in_pieces)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.title)
def test_accepted(node: RunningNode, control: RawConnection, case: Accepted) -> None:
    data = case.data + (GOOD if case.stays_open else b"")
    with node.connect() as connection:
        connection.send(data)
        connection.half_close()
        raw = connection.read_to_end()
    assert_accepted(case, raw, "in one piece")
    for at, raw in split_everywhere(node, control, data, half_close=True):
        assert_accepted(case, raw, f"split after {data[:at]!r}")
    if len(data) <= BYTE_BY_BYTE_MAX:
        assert_accepted(case, byte_by_byte(node, control, data, half_close=True), "byte by byte")


def assert_accepted(case: Accepted, raw: bytes, how: str) -> None:
    if case.is_head:
        head, _, rest = raw.partition(b"\r\n\r\n")
        got = answers(head + b"\r\n\r\n", head_only=True) + answers(rest)
    else:
        got = answers(raw)
    expected = (case.status, 200) if case.stays_open else (case.status,)
    assert tuple(status for status, _, _ in got) == expected, how
    assert (got[0][1].get(b"connection") == b"close") == (not case.stays_open), how
    assert b"smuggled" not in raw, how


def split_everywhere(
    node: RunningNode, control: RawConnection, data: bytes, *, half_close: bool = False
) -> list[tuple[int, bytes]]:
    """The responses to the data sent in two pieces, for every position of the split."""
    step = 1 if len(data) <= SPLIT_EVERYWHERE_MAX else -(-len(data) // 50)
    places = range(1, len(data), step)
    connections = [node.connect() for _ in places]
    try:
        for at, connection in zip(places, connections, strict=True):
            connection.send(data[:at])
        in_step(control)
        for at, connection in zip(places, connections, strict=True):
            send_all_or_some(connection, data[at:])
            if half_close:
                half_close_if_open(connection)
        return [(at, connection.read_to_end()) for at, connection in zip(places, connections, strict=True)]
    finally:
        for connection in connections:
            connection.close()


def byte_by_byte(node: RunningNode, control: RawConnection, data: bytes, *, half_close: bool = False) -> bytes:
    with node.connect() as connection:
        for at in range(len(data)):
            send_all_or_some(connection, data[at : at + 1])
            in_step(control)
        if half_close:
            half_close_if_open(connection)
        return connection.read_to_end()


def half_close_if_open(connection: RawConnection) -> None:
    try:
        connection.half_close()
    except OSError:  # not connected any more
        return


def test_9112_9_6_a_refusal_reaches_a_client_that_is_still_sending(node: RunningNode, control: RawConnection) -> None:
    """A socket closed while bytes are on their way sends a reset, and the response may be lost."""
    with node.connect() as connection:
        connection.send(post(b"Content-Length: 500000"))
        in_step(control)
        for _ in range(5):
            connection.send(bytes(100_000))
        assert connection.read_reply().status == 405
        assert connection.sock.recv(1) == b""  # and no reset


def test_nothing_smuggled_was_served(node: RunningNode) -> None:
    """Run after the others: the log has a line for everything that was parsed as a request."""
    node.get("/end-of-the-probes")
    wait_for(lambda: b"/end-of-the-probes" in node.access_log.read_bytes(), "the last line in the log")
    assert b"smuggled" not in node.access_log.read_bytes()


def test_nothing_went_wrong_inside(node: RunningNode) -> None:
    assert [text for text in node.stderr if "Traceback" in text or "Error" in text] == []


def test_the_probes_are_many_and_each_has_its_name() -> None:
    for table in (REFUSED, ACCEPTED):
        assert len({probe.title for probe in table}) == len(table)
    assert len(REFUSED) >= 80
