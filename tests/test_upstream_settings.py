"""Settings of upstream servers: repeated options, tables of the TOML file, and clear errors."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from qosweb.errors import UsageError
from qosweb.settings import gather
from qosweb.upstream_settings import UpstreamSettings

TABLES = """
[[upstream]]
url = "http://127.0.0.1:9000"

[[upstream]]
name = "api"
url = "https://10.0.0.5:8443/"
paths = ["/api/*", "/login"]
hosts = "shop.example"
weight = 3
slots = 40
connections = 50
health_path = "/healthz"
health-interval = "2s"
health_status = [200, 418]
connect = 1
first_byte = "1m"
idle = 2.5
ca = "ca.pem"
server_name = "app.internal"
host = "app.internal:8443"
scope = "node"
"""


def upstreams(text: str) -> tuple[UpstreamSettings, ...]:
    return gather({}, {}, tomllib.loads(text), "q.toml").upstream


def test_tables_have_all_keys() -> None:
    first, api = upstreams(TABLES)
    assert (first.name, first.url, first.scope, first.weight) == ("127.0.0.1:9000", "http://127.0.0.1:9000", "node", 1)
    assert api == UpstreamSettings(
        name="api", url="https://10.0.0.5:8443", paths=("/api/*", "/login"), hosts=("shop.example",), weight=3,
        slots=40, connections=50, health_path="/healthz", health_interval=2.0, health_status=(200, 418), connect=1.0,
        first_byte=60.0, idle=2.5, ca=Path("ca.pem"), server_name="app.internal", host="app.internal:8443",
        scope="node",
    )  # fmt: skip


def test_the_option_may_be_repeated_and_needs_no_root() -> None:
    settings = gather({"upstream": "http://a:1,http://b:2"}, {}, {}, "")
    assert [one.url for one in settings.upstream] == ["http://a:1", "http://b:2"]
    assert settings.root is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[[upstream]]\nweight = 2", "q.toml: upstream 1: no url: give the address"),
        ("[[upstream]]\nurl = 'ftp://a'", "q.toml: upstream 1: url: 'ftp://a' is not the address of a server"),
        ("[[upstream]]\nurl = 'http://a'\nweigth = 2", "unknown key 'weigth'; did you mean 'weight'?"),
        ("[[upstream]]\nurl = 'http://a'\nweight = 0", "weight: 0 is not a whole number from 1 to 1000"),
        ("[[upstream]]\nurl = 'http://a'\nweight = true", "weight: True is not a whole number"),
        ("[[upstream]]\nurl = 'http://a'\npaths = 'api'", "paths: 'api' is not a path"),
        ("[[upstream]]\nurl = 'http://a'\npaths = ['/a/*/b']", "paths: '/a/*/b' is not a path"),
        ("[[upstream]]\nurl = 'http://a'\nhosts = 'a b'", "hosts: 'a b' is not a host"),
        ("[[upstream]]\nurl = 'http://a'\nidle = 'soon'", "q.toml: upstream 1: idle:"),
        ("[[upstream]]\nurl = 'http://a'\nscope = 'all'", "scope: 'all' is not a scope; use node or cluster"),
        ("[[upstream]]\nurl = 'http://a'\nhealth_status = 42", "health_status: 42 is not a whole number from 100"),
        ("[[upstream]]\nurl = 'http://a'\nhealth_path = '/h*'", "health_path: '/h*' is a pattern; give one path"),
        ("[[upstream]]\nurl = 'http://a'\nca = 'x'", "'ca' and 'server_name' are for https"),
        ("[[upstream]]\nurl = 'http://a'\n[[upstream]]\nurl = 'http://a'", "two upstreams have the name 'a'"),
        ("upstream = ['http://a', 'http://a']", "an address is given twice"),
        ("upstream = [1]", "expected a text or a number, not a list"),
    ],
)
def test_mistakes_are_explained(text: str, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        upstreams(text)
    assert error in str(raised.value)
