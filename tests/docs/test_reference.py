"""The tables of access log, admin API and upstream servers have what the code has: no more and no less."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from typing import TYPE_CHECKING

import pytest

from qosweb.admission.resources import Cause, LimitSource, ResourceState
from qosweb.analytics.read.log_lines import DECISIONS
from qosweb.server.accesslog.line import EXTRA_FIELDS, JsonLines, LogEntry
from qosweb.server.admin import admin, block_routes, metrics, qos_metrics, release_routes
from qosweb.upstream_settings import UpstreamSettings
from tests.docs.blocks import DOCS
from tests.support.clusters import RunningCluster
from tests.support.raw import RawConnection
from tests.support.sites import write_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.nodes import RunningNode

LOG = (DOCS / "reference" / "access-log.md").read_text("utf-8")
ADMIN = (DOCS / "reference" / "admin-api.md").read_text("utf-8")
SERVER = (DOCS / "reference" / "server.md").read_text("utf-8")
EVERYWHERE = {"event", "ts", "node", "view", "policy"}  # in every event


def rows_of(text: str, head: str) -> list[list[str]]:
    """The rows of all tables whose first column has this head."""
    tables = re.findall(rf"^\| {re.escape(head)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for table in tables for line in table.splitlines()]


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def first_column(text: str, head: str) -> set[str]:
    return {name for row in rows_of(text, head) for name in names_in(row[0])}


def keys_of(line: str) -> set[str]:
    return set(json.loads(line))


def test_fields_of_a_request() -> None:
    entry = LogEntry(
        0.0, "r", "::1", "GET", "h", "/", "denied", 503, 0, 0.0, 0.0,
        reason="lifetime", first_byte_s=0.1, request_id="x", resource="app",
    )  # fmt: skip
    assert first_column(LOG, "Field") == keys_of(JsonLines("n", "v", "p", tuple(EXTRA_FIELDS)).line(entry))


def test_decisions() -> None:
    assert first_column(LOG, "`decision`") == set(DECISIONS)


def test_fields_of_events() -> None:
    lines = JsonLines("n", "v", "p")
    events = {
        "policy": lines.policy_event(0.0, "", 1),
        "view": lines.view_event(0.0, 1, [], is_primary=True),
        "capacity": lines.capacity_event(0.0, 1, "n", 1),
        "upstream": lines.upstream_event(0.0, "u", "timeouts"),
        "resource": lines.resource_event(
            0.0, ResourceState("u", "server", "u", 8, LimitSource.KNEE, 8, 1, Cause.SERVER)
        ),
    }
    documented = {name: names_in(row[1]) for row in rows_of(LOG, "`event`") for name in names_in(row[0])}
    assert set(documented) == set(events)
    for name, line in events.items():
        assert documented[name] | EVERYWHERE == keys_of(line) | EVERYWHERE, name


def test_the_page_of_metrics_has_all_of_a_node() -> None:
    """It is generated from a node: this finds metrics that this node does not have."""
    source = "".join(map(inspect.getsource, (metrics, qos_metrics)))
    names = set(re.findall(r'"(qosweb_[a-z0-9_]+)"', source))
    page = (DOCS / "reference" / "metrics.md").read_text("utf-8")
    listed = {name.removesuffix("_total") for name in re.findall(r"^\| `(\w+)`", page, re.MULTILINE)}
    assert len(names) > 50
    assert names - listed == set()


def test_endpoints() -> None:
    source = "".join(map(inspect.getsource, (admin, block_routes, release_routes)))
    routes = {
        f"{method.upper()} {path}" for method, path in re.findall(r'web\.(get|put|post|delete)\("([^"]+)"', source)
    }
    assert len(routes) > 10
    assert first_column(ADMIN, "Request") == routes
    assert {" ".join(line.split("?")[0].split()[:2]) for line in admin.ROUTES.splitlines()[1:]} == routes


def test_keys_of_upstream_servers() -> None:
    assert first_column(SERVER, "Key") == {field.name for field in dataclasses.fields(UpstreamSettings)}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch = tmp_path_factory.mktemp("reference")
    with RunningCluster(write_site(scratch / "site"), scratch, "</a>.server_resource > 10%", "a") as cluster:
        yield cluster.nodes["a"]


def ask(node: RunningNode, path: str) -> dict[str, object]:
    with RawConnection(node.admin_port) as connection:
        found: dict[str, object] = json.loads(connection.get(path, "Connection: close").body)
    return found


def test_keys_of_the_status(node: RunningNode) -> None:
    status = ask(node, "/status")
    classes = status["classes"]
    assert isinstance(classes, dict)
    documented = {name for row in rows_of(section("/status"), "Key") for name in names_in(row[0])}
    assert documented == set(status)
    assert first_column(ADMIN, "Key of a class") == set(classes["/a"])


def test_keys_of_the_queue(node: RunningNode) -> None:
    assert first_column(section("/queue"), "Key") == set(ask(node, "/queue"))


def test_keys_of_the_block_list(node: RunningNode) -> None:
    assert first_column(section("/blocks"), "Key") == set(block_routes.ListChange.__struct_fields__)
    assert set(ask(node, "/blocks")) <= names_in(section("/blocks"))


def section(path: str) -> str:
    return ADMIN.split(f"## `{path}`\n", 1)[1].split("\n## ", 1)[0]
