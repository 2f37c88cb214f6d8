"""Access log lines: exactly one for each request, with the documented fields, for all kinds of requests."""

import json
import re
import time
from pathlib import Path
from signal import Signals

import pytest

from tests.support.load import Hammer, burst
from tests.support.misbehaving import MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.sites import LARGE, write_site
from tests.support.waiting import wait_for

FIELDS = [
    "ts", "rid", "node", "view", "policy", "client", "method", "host", "path",
    "class", "decision", "status", "bytes", "queue_ms", "service_ms", "total_ms",
]  # fmt: skip

QUOTED = r'"((?:[^"\\]|\\x[0-9a-f]{2}|\\["\\])*)"'
COMBINED = re.compile(
    rf"(\S+) - - \[(\d\d/\w{{3}}/\d{{4}}(?::\d\d){{3}} \+0000)\] {QUOTED} (\d{{3}}) (\d+|-) {QUOTED} {QUOTED}"
)

HOSTILE = [
    b'GET /"quoted" HTTP/1.1\r\nHost: localhost\r\n\r\n',
    b"GET /back\\slash\\\\ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%22%0a%0d%00%5c HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\xc3\xa9\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%ff%fe%ed%a0%80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\x01\x1b[2J\x7f HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"%41" * 2000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'GET / HTTP/1.1\r\nHost: "}\n{\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a"b\\c\r\n\r\n',
    b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    b'GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: "\\\t\xff\xc3\xa9\r\nReferer: " - - ["\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a\x1b[31m"\\\x7f\r\n\r\n',
    b'WEI"RD / HTTP/1.1\r\nHost: localhost\r\n\r\n',
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"\r\n\r\n\r\nnonsense\r\n\r\n",
    b"GET http://[::1]:80/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("log") / "site")


def ask(node: RunningNode, request: bytes) -> bytes:
    """Everything that the server sends until it closes."""
    with node.connect() as connection:
        connection.send(request)
        connection.half_close()
        return connection.read_to_end()


def test_every_kind_of_request_has_all_fields_in_order(site: Path, tmp_path: Path) -> None:
    before = time.time()
    with RunningNode(site, tmp_path) as node:
        size = len((site / "page.html").read_bytes())
        with node.connect() as connection:
            for _ in range(3):
                assert connection.get("/page.html?q=1").status == 200
                assert connection.get("/page.html").status == 200
            assert connection.get("/page.html", method="HEAD").status == 200
            assert connection.get("/page.html", "Range: bytes=0-9").status == 206
            etag = connection.get("/page.html").headers["etag"]
            assert connection.get("/page.html", f"If-None-Match: {etag}").status == 304
            missing = connection.get("/missing")
            assert missing.status == 404
            assert connection.get("/", method="DELETE").status == 405
            assert len(connection.get("/large.bin").body) == LARGE
        malformed = ask(node, b"nonsense\r\n\r\n")
        assert malformed.startswith(b"HTTP/1.1 400")
        assert node.stop() == 0
    lines = node.log()
    assert [list(line) for line in lines] == [FIELDS] * 14
    seen = [(line["method"], line["path"], line["decision"], line["status"], line["bytes"]) for line in lines]
    assert seen[:6] == [("GET", "/page.html", "served", 200, size)] * 6
    assert seen[6:10] == [
        ("HEAD", "/page.html", "served", 200, 0),
        ("GET", "/page.html", "served", 206, 10),
        ("GET", "/page.html", "served", 200, size),
        ("GET", "/page.html", "served", 304, 0),
    ]
    assert seen[10] == ("GET", "/missing", "served", 404, len(missing.body))
    assert seen[11][:4] == ("DELETE", "/", "served", 405)
    assert seen[12] == ("GET", "/large.bin", "served", 200, LARGE)
    assert seen[13][:4] == ("-", "-", "failed", 400)
    assert [line["host"] for line in lines] == ["localhost"] * 13 + [""]
    after = time.time()
    for line in lines:
        assert (line["node"], line["client"], line["class"]) == ("n1", "127.0.0.1", "default")
        assert isinstance(line["ts"], float)
        assert before - 1 <= line["ts"] <= after + 1
        times = [line["queue_ms"], line["service_ms"], line["total_ms"]]
        assert all(isinstance(ms, int | float) and 0 <= ms <= (after - before + 1) * 1e3 for ms in times)
        assert times[2] == pytest.approx(float(str(times[0])) + float(str(times[1])), abs=0.002)


def test_one_line_for_each_request_under_load(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--cache-file-max", "512") as node:  # page.html is sent from disk
        with Hammer(node.port, ["/", "/page.html", "/missing"], clients=6) as hammer:
            burst(node.port, 3000, "/")
            wait_for(lambda: hammer.answers >= 400, "some answers")
            answers = 3000 + hammer.stop()
        assert node.stop() == 0
    lines = node.log()
    assert len(lines) == answers
    assert len({line["rid"] for line in lines}) == answers


def test_no_line_is_lost_or_torn_when_the_node_ends_under_load(site: Path, tmp_path: Path) -> None:
    with (
        RunningNode(site, tmp_path) as node,
        Hammer(node.port, ["/", "/page.html", "/missing"], clients=6) as hammer,
    ):
        wait_for(lambda: hammer.answers >= 300, "some answers")
        assert node.stop(Signals.SIGTERM) == 0
        answers = hammer.stop()
    lines = node.log()
    assert answers <= len(lines) <= answers + 6  # a client may miss the end of its last answer
    assert len({line["rid"] for line in lines}) == len(lines)


def test_hostile_bytes_give_valid_lines(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        for request in HOSTILE:
            assert ask(node, request).startswith(b"HTTP/1.1 ")
        assert node.stop() == 0
    text = node.access_log.read_bytes()
    assert text.count(b"\n") == len(HOSTILE)
    assert text.isascii()
    for line in text.decode().splitlines():
        assert line.isprintable()
        assert list(json.loads(line)) == FIELDS
        assert len(line) < 8000


def test_the_combined_form(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--access-log-format", "combined") as node:
        with node.connect() as connection:
            for _ in range(2):
                connection.get("/page.html", 'User-Agent: Mozilla/5.0 "x"', "Referer: http://a.example/")
            connection.get("/page.html?q=1&b=%22", method="HEAD")
        for request in HOSTILE:
            ask(node, request)
        burst(node.port, 1000)
        assert node.stop() == 0
    lines = node.access_log.read_text("ascii").splitlines()
    assert len(lines) == 3 + len(HOSTILE) + 1000
    found = [COMBINED.fullmatch(line) for line in lines]
    assert None not in found, [line for line, match in zip(lines, found, strict=True) if match is None]
    assert all(line.isprintable() for line in lines)
    first = [match.groups() for match in found if match is not None][:3]
    size = str((site / "page.html").stat().st_size)
    for client, at, line, status, sent, referer, agent in first[:2]:
        assert (client, line, status, sent) == ("127.0.0.1", "GET /page.html HTTP/1.1", "200", size)
        assert abs(time.mktime(time.strptime(at, "%d/%b/%Y:%H:%M:%S +0000")) - time.timezone - time.time()) < 120
        assert (referer, agent) == ("http://a.example/", r"Mozilla/5.0 \"x\"")
    assert first[2][2:5] == ("HEAD /page.html?q=1&b=%22 HTTP/1.1", "200", "-")


def test_a_transfer_that_the_client_gives_up_is_logged_with_what_was_sent(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        with node.connect() as connection:
            connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection._read_until(b"\r\n\r\n")
            read = len(connection._read_exactly(100_000))
        wait_for(lambda: len(node.log()) == 1, "the line of the broken transfer")
        [line] = node.log()
        assert (line["path"], line["decision"], line["status"]) == ("/large.bin", "failed", 200)
        assert isinstance(line["bytes"], int)
        assert read <= line["bytes"] < LARGE


def test_malformed_and_late_requests_are_logged(site: Path, tmp_path: Path) -> None:
    options = [
        "--max-request-line",
        "256",
        "--max-header-size",
        "512",
        "--max-headers",
        "5",
        "--header-timeout",
        "500ms",
    ]
    with RunningNode(site, tmp_path, *options) as node:
        many = b"".join(b"X-%d: 1\r\n" % at for at in range(10))
        for status, request in (
            (414, b"GET /" + b"a" * 300 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            (431, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 600 + b"\r\n\r\n"),
            (431, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n"),
            (501, b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            (505, b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n"),
            (413, b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"),
        ):
            assert int(ask(node, request)[9:12]) == status
        with RawConnection(node.port) as connection:
            connection.send(b"GET / HT")
            assert connection.read_reply().status == 408
        assert node.stop() == 0
    assert [line["status"] for line in node.log()] == [414, 431, 431, 501, 505, 413, 408]


def test_extra_fields_on_every_line(site: Path, tmp_path: Path) -> None:
    """Also on the fast path, where heads repeat."""
    fields = ("--access-log-fields", "user_agent,query", "--access-log-fields", "referer")
    agents = ["one", 'two"\\']
    with RunningNode(site, tmp_path, *fields) as node:
        with node.connect() as connection:
            for _ in range(5):
                for agent in agents:
                    reply = connection.get("/page.html?q=%22", f"User-Agent: {agent}", "Referer: http://x/?a")
                    assert reply.status == 200
            assert connection.get("/page.html").status == 200
            assert connection.get("/missing?", "User-Agent: " + "x" * 2000).status == 404
        assert ask(node, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert node.stop() == 0
    lines = node.log()
    with_extra = [*FIELDS[:8], "user_agent", "query", "referer", *FIELDS[8:]]
    assert [list(line) for line in lines] == [with_extra] * 13
    seen = [(line["user_agent"], line["query"], line["referer"]) for line in lines]
    assert seen[:10] == [(agent, "q=%22", "http://x/?a") for agent in agents] * 5
    assert seen[10:] == [(None, None, None), ("x" * 512, "", None), (None, None, None)]


def test_the_upstream_time(site: Path, tmp_path: Path) -> None:
    def script(talk: Talk) -> None:
        if talk.path == "/gone":
            talk.reset()
        else:
            talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with (
        MisbehavingServer(script) as server,
        RunningNode(site, tmp_path, "--upstream", server.url, "--access-log-fields", "upstream_ms") as node,
    ):
        assert node.get("/there").status == 200
        assert node.get("/gone").status == 502
        assert node.get("/page.html").status == 200
        assert node.stop() == 0
    there, gone, here = node.log()
    assert 0 < there["upstream_ms"] <= there["service_ms"]
    assert 0 < gone["upstream_ms"] <= gone["service_ms"]
    assert here["upstream_ms"] is None


def test_a_page_of_two_classes_names_the_class_of_each_request(site: Path, tmp_path: Path) -> None:
    spec = tmp_path / "spec.webqos"
    spec.write_text('let gold = header("X-Plan") = "gold"\ngold => </page.html>.server_resource > 20%\n')
    classes = []
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        with node.connect() as connection:
            for number in range(12):  # each head is known after two requests
                fields = ("X-Plan: gold",) if number % 2 else ()
                classes.append(connection.get("/page.html", *fields).headers["qos-class"])
        assert node.stop() == 0
    assert classes == ["/page.html", "/page.html#gold"] * 6
    assert [line["class"] for line in node.log()] == classes
