"""Admin port: probes, metrics that count every request, status, and authorisation."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from signal import Signals

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from qosweb.server.admin.bounded_connections import ADMIN_CONNECTIONS_MAX
from qosweb.version import VERSION
from tests.support.load import burst
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply
from tests.support.sites import LARGE, write_site
from tests.support.tls import write_certificate
from tests.support.waiting import wait_for

TOKEN = "0123456789abcdef-token"
OTHER_TOKEN = "another-token-0123456789"
BASE_UNITS = ("_seconds", "_bytes", "_bytes_per_second", "_requests_per_second", "_total", "_ratio", "_info")
COUNTED_THINGS = (
    "_entries",
    "connections",
    "pages",
    "lines_waiting",
    "in_service",
    "files",
    "primary",
    "epoch",
    "members",
    "slots",
    "waiting_requests",
    "contended",
    "upstream_up",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("admin") / "site")


@pytest.fixture(scope="module")
def node(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(site, tmp_path_factory.mktemp("node")) as node:
        yield node


def ask(node: RunningNode, path: str, *fields: str, method: str = "GET") -> Reply:
    with RawConnection(node.admin_port) as connection:
        return connection.get(path, "Connection: close", *fields, method=method)


def metrics(node: RunningNode) -> dict[str, Metric]:
    reply = ask(node, "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {family.name: family for family in text_string_to_metric_families(reply.body.decode())}


def samples(node: RunningNode) -> dict[tuple[str, ...], float]:
    """Every sample by its name and label values."""
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in metrics(node).values()
        for sample in family.samples
    }


def test_probes(node: RunningNode) -> None:
    assert (ask(node, "/livez").status, ask(node, "/livez").body) == (200, b"ok\n")
    assert (ask(node, "/readyz").status, ask(node, "/readyz").body) == (200, b"ok\n")
    assert ask(node, "/readyz?verbose").body == b"[+] serving ok\n[+] cluster ok\n[+] root ok\n"
    index = ask(node, "/").body.decode()
    for path in ("/livez", "/readyz?verbose", "/metrics", "/status"):
        assert path in index
        assert ask(node, path).status == 200


def test_unknown_paths_and_methods(node: RunningNode) -> None:
    for path in ("/nothing", "/livez/", "/../livez", "/metrics%00"):
        assert ask(node, path).status == 404
    assert ask(node, "/livez", method="DELETE").status == 405
    assert ask(node, "/livez", method="HEAD").status == 200
    assert node.get("/livez").status == 404  # not on the public port
    assert node.get("/metrics").status == 404


def test_names_have_one_prefix_and_base_units(node: RunningNode) -> None:
    for family in metrics(node).values():
        assert family.documentation
        if family.name.startswith(("process_", "python_")):
            continue
        assert family.name.startswith("qosweb_"), family.name
        assert not any(word in family.name for word in ("_ms", "milli", "kilo", "_kb", "minutes")), family.name
        names = {sample.name for sample in family.samples}
        if family.type == "counter":
            assert all(name.endswith("_total") for name in names), names
        elif family.type == "histogram":
            assert names <= {f"{family.name}{end}" for end in ("_bucket", "_sum", "_count")}
        else:
            assert family.type == "gauge"
            assert family.name.endswith((*BASE_UNITS, *COUNTED_THINGS)), family.name
            assert not family.name.endswith("_total")


def test_labels_are_classes_and_outcomes_and_never_addresses_of_pages(node: RunningNode) -> None:
    for number in range(20):
        node.get(f"/missing-{number}?secret=x", f"User-Agent: agent-{number}")
    text = ask(node, "/metrics").body.decode()
    assert "missing" not in text
    assert "agent" not in text
    assert "secret" not in text


def test_after_n_requests_of_each_kind_the_counters_say_n(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        burst(node.port, 300)
        size = 300 * len((site / "index.html").read_bytes())
        with node.connect() as connection:
            for _ in range(7):
                size += len(connection.get("/missing").body)
            for _ in range(5):
                assert connection.get("/page.html", method="HEAD").status == 200
            for _ in range(4):
                size += len(connection.get("/page.html", "Range: bytes=0-99").body)
            for _ in range(3):
                assert connection.get("/", "If-None-Match: *").status == 304
            for _ in range(2):
                size += len(connection.get("/large.bin").body)
        for _ in range(6):
            with node.connect() as connection:
                connection.send(b"nonsense\r\n\r\n")
                reply = connection.read_reply()
                assert reply.status == 400
                size += len(reply.body)
        with node.connect() as connection:  # one that is given up by its client
            connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
            connection._read_until(b"\r\n\r\n")
        wait_for(lambda: samples(node)[("qosweb_connections",)] == 0, "all connections to end")
        now = samples(node)
        assert now["qosweb_requests_total", "default", "served"] == 300 + 7 + 5 + 4 + 3 + 2
        assert now["qosweb_requests_total", "default", "failed"] == 6 + 1
        by_status = {key[1]: value for key, value in now.items() if key[0] == "qosweb_responses_total"}
        assert by_status == {"200": 300 + 5 + 2 + 1, "206": 4, "304": 3, "400": 6, "404": 7}
        given_up = now["qosweb_response_bytes_total", "default"] - size
        assert 0 <= given_up < LARGE
        assert now["qosweb_request_service_seconds_count", "default"] == 328
        assert now["qosweb_request_service_seconds_bucket", "default", "+Inf"] == 328
        assert 0 < now["qosweb_request_service_seconds_sum", "default"] < 60
        assert now[("qosweb_connections_accepted_total",)] == 9
        assert now["qosweb_connections_refused_total", "malformed"] == 6
        assert now[("qosweb_requests_in_service",)] == now[("qosweb_open_files",)] == 0
        assert now[("qosweb_access_log_lines_lost_total",)] == 0
        wait_for(lambda: samples(node)[("qosweb_access_log_lines_total",)] == 328, "all lines to be written")
        status = json.loads(ask(node, "/status").body)["classes"]["default"]
        assert (status["served"], status["failed"], status["in_service"]) == (321, 7, 0)
        assert status["bytes"] == now["qosweb_response_bytes_total", "default"]
        assert node.stop() == 0
    assert len(node.log()) == 328


def test_what_is_in_service_is_counted_while_it_is(node: RunningNode) -> None:
    with node.connect() as connection:
        connection.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection._read_until(b"\r\n\r\n")
        now = samples(node)
        assert (now[("qosweb_requests_in_service",)], now[("qosweb_open_files",)]) == (1, 1)
        connection._read_exactly(LARGE)
    wait_for(lambda: samples(node)[("qosweb_requests_in_service",)] == 0, "the request to end")


def test_status(node: RunningNode, site: Path) -> None:
    assert node.get("/").status == 200
    reply = ask(node, "/status")
    assert reply.headers["content-type"].startswith("application/json")
    status = json.loads(reply.body)
    assert (status["name"], status["version"], status["draining"]) == ("n1", VERSION, False)
    assert status["root"] == str(site.resolve())
    assert 0 <= time.time() - status["since"] < 600
    assert status["cache"]["pages"] >= 1
    assert status["cache"]["bytes"] > 0
    assert status["connections"]["open"] >= 0
    assert status["connections"]["accepted"] > 0
    assert status["access_log"]["lost"] == 0
    assert status["classes"]["default"]["served"] >= 1


def test_a_token_is_needed_where_one_is_configured(site: Path, tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with RunningNode(site, tmp_path, "--admin-token-file", str(tmp_path / "token")) as node:
        for path in ("/livez", "/readyz", "/metrics", "/status", "/", "/nothing"):
            reply = ask(node, path)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert TOKEN.encode() not in reply.body
        for wrong in (TOKEN[:-1], f"{TOKEN}x", "", "\xff", f"Basic {TOKEN}"):
            assert ask(node, "/status", f"Authorization: Bearer {wrong}").status == 401
        assert ask(node, "/status", f"Authorization: Basic {TOKEN}").status == 401
        assert ask(node, "/status", f"Authorization: {TOKEN}").status == 401
        assert ask(node, "/status", f"Authorization: Bearer {TOKEN}").status == 200
        assert ask(node, "/status", f"Authorization: bearer {TOKEN}").status == 200
        assert ask(node, "/nothing", f"Authorization: Bearer {TOKEN}").status == 404
        assert node.stop() == 0
    assert TOKEN not in "".join(node.stderr) + node.access_log.read_text()


def test_a_reload_changes_the_token_only_if_everything_else_is_valid(site: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text(TOKEN)
    certificate, key = write_certificate(tmp_path / "tls")
    options = ("--admin-token-file", str(token), "--tls-cert", str(certificate), "--tls-key", str(key))
    with RunningNode(site, tmp_path, *options) as node:
        token.write_text(OTHER_TOKEN)
        valid = certificate.read_bytes()
        certificate.write_bytes(b"no certificate")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("not reloaded, nothing has changed" in line for line in node.stderr), "the refusal")
        assert ask(node, "/status", f"Authorization: Bearer {TOKEN}").status == 200
        assert ask(node, "/status", f"Authorization: Bearer {OTHER_TOKEN}").status == 401
        certificate.write_bytes(valid)
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("qosweb: reloaded: " in line for line in node.stderr), "the reload")
        assert ask(node, "/status", f"Authorization: Bearer {TOKEN}").status == 401
        assert ask(node, "/status", f"Authorization: Bearer {OTHER_TOKEN}").status == 200


def open_files(node: RunningNode) -> int:
    return len(list(Path(f"/proc/{node.process.pid}/fd").iterdir()))


def test_connections_to_the_admin_port_are_bounded(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node, contextlib.ExitStack() as flood:
        before = open_files(node)
        with RawConnection(node.admin_port) as busy:
            busy.send(b"PUT /policy HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")  # its body is missing
            wait_for(lambda: node.metric("qosweb_connections") == 0, "an answer of the admin port")
            others = [
                flood.enter_context(RawConnection(node.admin_port, timeout_s=10))  # less than an idle one may stay
                for _ in range(4 * ADMIN_CONNECTIONS_MAX)
            ]
            assert all(one.is_closed() for one in others[: 3 * ADMIN_CONNECTIONS_MAX - 1])
            assert open_files(node) <= before + ADMIN_CONNECTIONS_MAX + 1
            assert ask(node, "/livez").status == 200
            busy.send(b"</")  # a request that has begun is not displaced
            assert busy.read_reply().status == 422


def test_malformed_requests_are_not_logged(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        for malformed in (b"GET /livez HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", b"\0\r\n\r\n"):
            with RawConnection(node.admin_port) as connection:
                connection.send(malformed)
                assert b" 400 " in connection.read_to_end()
        assert node.stop() == 0
    assert [line for line in node.stderr if "serving" not in line and "draining" not in line] == []


def test_a_node_without_an_admin_port(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--admin", "none") as node:
        assert node.admin_port == 0
        assert node.get("/").status == 200
        assert node.stop() == 0
