"""Health of a server, the retry budget and routes: when a server is out, and where a request goes. On fake time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from qosweb.engine.replicated.upstreams import Vote
from qosweb.server.proxy.health import (
    BACKOFF_MAX_S,
    BACKOFF_S,
    EVIDENCE_S,
    FAILURES_MAX,
    SETTLED_S,
    SLOW_START_S,
    START_SHARE,
    Failure,
    HealthState,
    ServerHealth,
)
from qosweb.server.proxy.retry_budget import RETRIES_MIN, WINDOW_S, RetryBudget
from qosweb.server.proxy.routes import Routes
from qosweb.upstream_settings import UpstreamSettings, parse_upstreams

if TYPE_CHECKING:
    from qosweb.admission import Permit
    from qosweb.server.proxy.upstream_server import UpstreamServer


def ejected(at: float = 0.0) -> ServerHealth:
    health = ServerHealth(is_checked=False)
    for _ in range(2):
        health.on_failure(Failure.UNREACHABLE, at, at)
    assert not health.is_in
    return health


def test_a_server_voted_out_by_others_is_out_until_they_are_outvoted() -> None:
    health = ServerHealth(is_checked=False)
    health.hold("out at b", 0)
    assert (health.is_in, health.reason, health.vote(0)) == (False, "out at b", Vote.UNKNOWN)
    assert not health.may_serve(0, 0.1)
    assert health.may_serve(0, BACKOFF_S)  # one request is tried
    health.on_response(BACKOFF_S, is_error=False)
    assert (health.is_in, health.vote(BACKOFF_S)) == (False, Vote.HEALTHY)
    health.release(BACKOFF_S)
    assert health.is_in
    assert health.share(BACKOFF_S) == START_SHARE


def test_own_evidence_outlives_the_votes_of_others() -> None:
    health = ejected()
    health.hold("out at b", 0)
    health.release(0.5)
    assert (health.is_in, health.reason, health.vote(0.5)) == (False, "connection errors", Vote.OUT)


def test_evidence_of_health_ages() -> None:
    health = ServerHealth(is_checked=False)
    assert health.vote(0) is Vote.UNKNOWN
    health.on_response(1, is_error=False)
    assert health.vote(1 + EVIDENCE_S / 2) is Vote.HEALTHY
    assert health.vote(1 + EVIDENCE_S) is Vote.UNKNOWN


def test_the_only_server_is_back_with_its_first_good_response() -> None:
    health = ejected()
    health.on_response(BACKOFF_S / 2, is_error=False)  # to a request from before, perhaps
    assert not health.is_in
    health.on_response(BACKOFF_S, is_error=False)
    assert health.is_in


def test_two_connection_errors_in_a_row_eject() -> None:
    health = ServerHealth(is_checked=False)
    health.on_failure(Failure.UNREACHABLE, 0, 0)
    health.on_response(0.1, is_error=False)
    health.on_failure(Failure.UNREACHABLE, 0, 0.2)
    assert health.is_in
    health.on_failure(Failure.UNREACHABLE, 0, 0.3)
    assert (health.is_in, health.reason, health.ejections) == (False, "connection errors", 1)
    assert not health.may_serve(0, 0.3)


def test_consecutive_errors_eject() -> None:
    health = ServerHealth(is_checked=False)
    for at in range(FAILURES_MAX - 1):
        health.on_response(at, is_error=True)
    health.on_response(5, is_error=False)
    for at in range(FAILURES_MAX):
        assert health.is_in
        health.on_response(10 + at, is_error=True)
    assert (health.is_in, health.reason) == (False, "consecutive responses 5xx")


def test_a_timeout_ejects_only_if_the_server_hangs() -> None:
    health = ServerHealth(is_checked=False)
    health.on_response(5, is_error=False)
    health.on_failure(Failure.TIMEOUT, 1, 31)  # one slow request: others were answered meanwhile
    assert health.is_in
    health.on_failure(Failure.TIMEOUT, 6, 36)
    assert (health.is_in, health.reason) == (False, "timeouts")


def test_a_server_returns_by_one_request_at_a_time_and_slowly() -> None:
    health = ejected()
    assert not health.may_serve(0, BACKOFF_S - 0.01)
    assert health.may_serve(0, BACKOFF_S)
    assert not health.may_serve(1, BACKOFF_S)
    health.on_response(2, is_error=False)
    assert health.is_in
    assert health.share(2) == START_SHARE
    assert health.share(2 + SLOW_START_S / 2) == pytest.approx(0.5)
    assert health.share(2 + SLOW_START_S) == 1.0


def test_the_back_off_doubles_until_the_server_has_settled() -> None:
    health, at = ejected(), 0.0
    for back_off in (BACKOFF_S, 2 * BACKOFF_S, 4 * BACKOFF_S):
        assert not health.may_serve(0, at + back_off - 0.01)
        at += back_off
        assert health.may_serve(0, at)
        health.on_failure(Failure.UNREACHABLE, at, at)
    for _ in range(10):
        at += BACKOFF_MAX_S
        assert health.may_serve(0, at)
        health.on_failure(Failure.UNREACHABLE, at, at)
    at += BACKOFF_MAX_S
    assert health.may_serve(0, at)
    health.on_response(at, is_error=False)
    at += SETTLED_S + 1
    for _ in range(2):
        health.on_failure(Failure.UNREACHABLE, at, at)
    assert health.may_serve(0, at + BACKOFF_S)


def test_active_checks_eject_and_let_return() -> None:
    health = ServerHealth(is_checked=True)
    health.on_check(0, is_good=False, why="status 500")
    health.on_check(1, is_good=True)
    health.on_check(2, is_good=False, why="status 500")
    assert health.is_in
    health.on_check(3, is_good=False, why="status 503")
    assert (health.is_in, health.reason) == (False, "health checks: status 503")
    assert not health.may_serve(0, 1e6)  # only checks let it return
    states = []
    for at in (4, 5):
        health.on_check(at, is_good=True)
        states.append(health.state)
    assert states == [HealthState.OUT, HealthState.IN]


def test_the_budget_is_a_part_of_the_requests_of_a_window() -> None:
    budget = RetryBudget()
    for _ in range(1000):
        budget.count_request(0.5)
    assert sum(budget.try_retry(1) for _ in range(500)) == 200
    assert (budget.retries, budget.refused) == (200, 300)
    assert sum(budget.try_retry(2 + WINDOW_S) for _ in range(500)) == RETRIES_MIN  # few requests


# ---- routes


def server(name: str, weight: int = 1, paths: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> UpstreamServer:
    settings = UpstreamSettings(url=f"http://{name}", name=name, weight=weight, paths=paths, hosts=hosts)
    one = SimpleNamespace(name=name, settings=settings, in_service=0, health=ServerHealth(is_checked=False))
    one.may_serve = lambda now: one.health.may_serve(one.in_service, now)
    one.load = lambda now: (one.in_service + 1) / (weight * one.health.share(now))
    return cast("UpstreamServer", one)


def routed(routes: Routes, host: str, path: str) -> str:
    route = routes.find(host, path)
    return "" if route is None else route.servers[0].name


def test_the_most_specific_route_is_chosen() -> None:
    routes = Routes(
        [
            server("any"),
            server("api", paths=("/api/*",)),
            server("deep", paths=("/api/deep/*", "/x")),
            server("login", paths=("/api/login",)),
            server("shop", hosts=("shop.example",)),
            server("shop api", hosts=("shop.example",), paths=("/api/*",)),
            server("sub", hosts=("*.shop.example",)),
        ]
    )
    assert [
        routed(routes, *one)
        for one in [
            ("h", "/"), ("h", "/api/x"), ("h", "/api/deep/x"), ("h", "/x"), ("h", "/xx"), ("h", "/api/login"),
            ("h", "/api/login/x"), ("shop.example", "/"), ("shop.example:80", "/api/login"), ("a.b.shop.example", "/"),
            ("evilshop.example", "/"), ("[::1]", "/"),
        ]
    ] == [
        "any", "api", "deep", "deep", "any", "login", "api", "shop", "shop api", "sub", "any", "any",
    ]  # fmt: skip
    only = Routes([server("api", paths=("/api/*",))])
    assert (routed(only, "h", "/api/"), routed(only, "h", "/")) == ("api", "")


def test_requests_go_to_the_least_loaded_server_by_weight() -> None:
    servers = [server("a"), server("b", weight=3), server("c")]
    route = Routes(servers).find("", "/")
    assert route is not None
    for _ in range(50):
        chosen = route.pick(0.0)
        assert chosen is not None
        chosen.in_service += 1
    assert [one.in_service for one in servers] == [10, 30, 10]


def test_a_pick_that_was_not_used_does_not_count() -> None:
    route = Routes([server("a"), server("b")]).find("", "/")
    assert route is not None
    used = []
    for _ in range(4):
        assert route.pick(0.0) is not None
        route.undo_pick()
        used.append(route.pick(0.0))
    assert used[0] is used[2] is not used[1] is used[3]


def test_a_server_that_may_be_back_is_tried_instead_of_the_granted_one() -> None:
    a, b = server("a"), server("b")
    route = Routes([a, b]).find("", "/")
    assert route is not None
    permit = cast("Permit", SimpleNamespace(server="b"))
    for _ in range(2):
        a.health.on_failure(Failure.UNREACHABLE, 0, 0)
    assert route.granted(permit, BACKOFF_S / 2, is_repeatable=True) is b
    assert route.granted(permit, BACKOFF_S, is_repeatable=False) is b
    assert route.granted(permit, BACKOFF_S, is_repeatable=True) is a


def test_a_server_that_is_out_gets_nothing_unless_all_are_out() -> None:
    servers = [server("a"), server("b"), server("c")]
    route = Routes(servers).find("", "/")
    assert route is not None
    for one in servers[:2]:
        one.health.on_failure(Failure.TIMEOUT, 0, 0)

    def picked(now: float, without: UpstreamServer | None = None, *, is_repeatable: bool = True) -> set[str]:
        chosen = [route.pick(now, without, is_repeatable=is_repeatable) for _ in range(9)]
        return {one.name for one in chosen if one is not None}

    assert picked(0.1) == {"c"}
    assert picked(0.1, servers[2]) == {"a", "b"}
    servers[2].health.on_failure(Failure.TIMEOUT, 0, 0)
    assert picked(0.1) == {"a", "b", "c"}
    servers[2].health.on_check(0, is_good=True)
    servers[2].health.on_check(0, is_good=True)
    assert picked(2, is_repeatable=False) == {"c"}
    assert picked(2) == {"a"}  # it is tried, with a request that may be sent again
    servers[0].in_service += 1
    assert picked(2) == {"b"}


def test_a_single_server_is_never_replaced() -> None:
    route = Routes([only := server("a")]).find("h", "/")
    assert route is not None
    assert (route.pick(0), route.pick(0, only)) == (only, None)


def test_the_scope_of_a_server_follows_from_its_address() -> None:
    urls = "http://127.0.0.1:1,http://localhost:2,http://[::1],http://10.0.0.1:3,http://app.example"
    assert [one.scope for one in parse_upstreams(urls)] == ["node", "node", "node", "cluster", "cluster"]
    assert [one.name for one in parse_upstreams(urls)][2:] == ["[::1]", "10.0.0.1:3", "app.example"]
