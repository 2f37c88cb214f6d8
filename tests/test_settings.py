"""Settings of ``qosweb serve``: three sources, their precedence, and helpful errors."""

import contextlib
from ipaddress import ip_network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.errors import UsageError
from qosweb.server.accesslog.line import EXTRA_FIELDS
from qosweb.setting_values import LOG_FIELDS
from qosweb.settings import OPTIONS, OptionSpec, ServeSettings, gather
from qosweb.units import Address

KEYS = [spec.key for spec in OPTIONS]
VALID = {
    "root": "site",
    "name": "n7",
    "listen": "127.0.0.1:9000",
    "admin": "none",
    "admin-token-file": "token",
    "admin-host": "n7.example,n7.internal",
    "group": "127.0.0.1:9001",
    "join": "127.0.0.1:9002,127.0.0.1:9003",
    "bootstrap": "yes",
    "public-url": "http://n7.example:8080",
    "index": "start.html",
    "tls-cert": "cert.pem",
    "tls-key": "key.pem",
    "access-log": "access.log",
    "access-log-format": "combined",
    "upstream": "http://127.0.0.1:9000",
    "capacity": "2MB/s",
    "min-body-rate": "2MB/s",
    "client-share": "40%",
    "trust-proxy": "10.0.0.0/8,192.0.2.1",
    "access-log-fields": "query,user_agent",
    "error-pages": "errors",
    "proxy-protocol": "yes",
    "site": "yes",
    "find-line": "yes",
    "find-processor": "no",
    "multicast": "239.1.2.3:7000%eth0",
}
MULTICAST_NEEDS = {"site": "yes", "data-dir": "data", "bootstrap": "yes", "key-file": "key"}


def from_file(file: dict[str, object]) -> ServeSettings:
    return gather({}, {}, file, "q.toml")


def another_value(spec: OptionSpec) -> str:
    """A right value that is not the default."""
    return VALID.get(spec.key) or ("7s" if spec.metavar == "TIME" else "20000")


def test_a_root_is_enough() -> None:
    settings = gather({"root": "site"}, {}, {}, "")
    assert settings.root == Path("site")
    assert settings.listen == Address("127.0.0.1", 8080)
    assert settings.admin == Address("127.0.0.1", 8081)


@pytest.mark.parametrize("spec", OPTIONS, ids=KEYS)
def test_every_setting_can_be_given_in_all_three_ways(spec: OptionSpec) -> None:
    value = another_value(spec)
    needed = {key: VALID[key] for key in ("root", "tls-cert", "tls-key")} if spec.key.startswith("tls") else {}
    if spec.key in ("cluster-id", "group", "join", "bootstrap"):
        needed = {"key-file": "key", **({"bootstrap": "yes"} if spec.key in ("cluster-id", "group") else {})}
    others = {"data-dir": "data"} if spec.key == "site" else {"root": "other", **needed}
    if spec.key == "multicast":
        others = MULTICAST_NEEDS
    others.pop(spec.key, None)
    ways = [
        gather({**others, spec.key: value}, {}, {}, ""),
        gather(others, {spec.variable: value}, {}, ""),
        gather(others, {}, {spec.key: value}, "q.toml"),
        gather(others, {}, {spec.field_name: value}, "q.toml"),
    ]
    values = {getattr(settings, spec.field_name) for settings in ways}
    assert len(values) == 1
    assert values != {spec.default}


@pytest.mark.parametrize("spec", [spec for spec in OPTIONS if not spec.key.startswith("tls")], ids=lambda s: s.key)
def test_command_line_before_environment_before_file_before_default(spec: OptionSpec) -> None:
    low, middle, high = {
        "access-log-format": ("json", "combined", "json"),
        "group": ("h:1", "h:2", "h:3"),
        "capacity": ("1MB/s", "2MB/s", "3MB/s"),
        "min-body-rate": ("1MB/s", "2MB/s", "3MB/s"),
        "client-share": ("10%", "20%", "30%"),
        "trust-proxy": ("10.0.0.1", "10.0.0.2", "10.0.0.3"),
        "access-log-fields": ("query", "referer", "user_agent,upstream_ms"),
        "proxy-protocol": ("yes", "no", "yes"),
        "site": ("yes", "no", "yes"),
        "find-line": ("yes", "no", "yes"),
        "find-processor": ("yes", "no", "yes"),
        "join": ("h:1", "h:2", "h:3"),
        "bootstrap": ("yes", "no", "yes"),
        "public-url": ("http://h:1", "http://h:2", "http://h:3"),
        "upstream": ("http://h:1", "http://h:2", "http://h:3"),
    }.get(spec.key, ("161", "162", "163"))
    names = {} if spec.key == "root" else {"root": "site"}
    if spec.key == "multicast":
        names = MULTICAST_NEEDS
    if spec.key == "site":
        names = {"upstream": "http://h:1", "data-dir": "data"}
    if spec.key in ("cluster-id", "group", "join", "bootstrap"):
        names["key-file"] = "key"
    if spec.key in ("cluster-id", "group"):
        names["bootstrap"] = "yes"
    if spec.key == "max-header-size":
        names["max-request-line"] = "16"
    file: dict[str, object] = {spec.key: low}
    environment = {spec.variable: middle}
    of_file = getattr(gather(names, {}, file, "q.toml"), spec.field_name)
    of_environment = getattr(gather(names, environment, file, "q.toml"), spec.field_name)
    of_command_line = getattr(gather({**names, spec.key: high}, environment, file, "q.toml"), spec.field_name)
    assert (of_file, of_environment, of_command_line) == (spec.parse(low), spec.parse(middle), spec.parse(high))


def test_numbers_in_the_file_need_no_quotes() -> None:
    settings = from_file({"root": "site", "listen": 9000, "cache-size": 1024, "grace": 2.5, "max-headers": 5})
    assert settings.listen == Address("127.0.0.1", 9000)
    assert (settings.cache_size, settings.grace, settings.max_headers) == (1024, 2.5, 5)


def test_the_variable_that_names_the_file_and_other_programs_variables_are_left_alone() -> None:
    assert gather({"root": "site"}, {"QOSWEB_CONFIG": "x", "PATH": "y", "QOSWE": "z"}, {}, "").root == Path("site")


def test_unknown_names_come_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"^q.toml: unknown key 'cahce-size'; did you mean 'cache-size'\?$"):
        from_file({"root": "site", "cahce-size": 1})
    expected = r"^unknown environment variable QOSWEB_LISTN; did you mean 'QOSWEB_LISTEN'\?$"
    with pytest.raises(UsageError, match=expected):
        gather({"root": "site"}, {"QOSWEB_LISTN": "1"}, {}, "")
    with pytest.raises(UsageError, match=r"^q.toml: unknown key 'zzz'$"):
        from_file({"zzz": 1})


@pytest.mark.parametrize(
    ("value", "kind"), [(True, "a boolean"), ([1], "a list"), ({"a": 1}, "a table"), (None, "NoneType")]
)
def test_a_wrong_type_in_the_file_is_named(value: object, kind: str) -> None:
    with pytest.raises(UsageError, match=f"^q.toml: grace: expected a text or a number, not {kind}$"):
        from_file({"root": "site", "grace": value})


def test_a_key_given_in_both_spellings_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^q.toml: cache_size: given twice"):
        from_file({"cache-size": 1, "cache_size": 2})


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("root", "", "is not a path"),
        ("root", "a\0b", "is not a path"),
        ("tls-cert", "", "is not a path"),
        ("access-log", "a\0b", "is not a path"),
        ("name", "a b", "use up to 64 letters, digits"),
        ("name", "é", "use up to 64 letters, digits"),
        ("name", "n" * 65, "use up to 64 letters, digits"),
        ("index", "a/b", "not a plain file name, such as index.html"),
        ("index", ".hidden", "not a plain file name, such as index.html"),
        ("index", "a\0b", "not a plain file name, such as index.html"),
        ("listen", "nowhere", "write HOST:PORT"),
        ("listen", "h:70000", "not between 0 and 65535"),
        ("access-log-format", "xml", "use json or combined"),
        ("access-log-keep", "0", "not a whole number of at least 1"),
        ("cache-size", "much", "a size such as 512, 16KB or 64MB"),
        ("max-connections", "0", "not a whole number of at least 1"),
        ("client-share", "0%", "must be more than 0"),
        ("client-share", "101%", "more than 100%"),
        ("client-share", "25", "did you mean 25%?"),
        ("client-share", "much", "is not a share"),
        ("trust-proxy", "proxy.example", "is not a network or an address, such as 10.0.0.0/8"),
        ("trust-proxy", "10.0.0.1/8", "did you mean 10.0.0.0/8?"),
        ("trust-proxy", "10.0.0.0/8,x", "'x' is not a network"),
        ("proxy-protocol", "v2", "is neither yes nor no"),
        ("access-log-fields", "useragent", "did you mean 'user_agent'?"),
        ("access-log-fields", "query,zzz", "'zzz' is not one of user_agent, referer, query, upstream_ms"),
        ("error-pages", "", "is not a path"),
        ("max-connections", "1.5", "not a whole number"),
        ("max-header-size", "0", "must be more than 0"),
        ("max-header-size", "999999999GB", "must be at most 64MB"),
        ("header-timeout", "0s", "is not greater than 0"),
        ("send-timeout", "soon", "a duration such as 500ms, 10s or 2min"),
    ],
)
def test_a_bad_value_is_named_with_its_place_and_what_would_be_right(key: str, value: str, right: str) -> None:
    spec = next(spec for spec in OPTIONS if spec.key == key)
    others = {} if key == "root" else {"root": "site"}
    for where, command_line, environment, file in (
        (spec.flag, {key: value}, {}, {}),
        (spec.variable, {}, {spec.variable: value}, {}),
        (f"q.toml: {key}", {}, {}, {key: value}),
    ):
        with pytest.raises(UsageError) as caught:
            gather({**others, **command_line}, environment, file, "q.toml")
        message = str(caught.value)
        assert message.startswith(f"{where}: ")
        assert right in message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to serve: give the folder with --root DIR, a server with --upstream URL, or --site for releases"),
        (
            {"access-log-format": "combined", "access-log-fields": "query"},
            "--access-log-fields is for --access-log-format json; combined has its own fixed fields",
        ),
        ({"tls-cert": "c"}, "TLS needs both --tls-cert and --tls-key; --tls-key is missing"),
        ({"tls-key": "k"}, "TLS needs both --tls-cert and --tls-key; --tls-cert is missing"),
        ({"admin": "0.0.0.0:1"}, "admin address 0.0.0.0:1 is not loopback: it needs --admin-token-file FILE"),
        ({"admin": "[::]:1"}, r"admin address [::]:1 is not loopback: it needs --admin-token-file FILE"),
        ({"admin": "127.0.0.1:8080"}, "--listen and --admin are both 127.0.0.1:8080; give them different ports"),
        (
            {"max-header-size": "4KB"},
            (
                "--max-request-line 8KB is larger than --max-header-size 4KB, which includes it; "
                "lower the first or raise the second"
            ),
        ),
    ],
)
def test_conflicting_settings_are_rejected(given: dict[str, str], message: str) -> None:
    root = {"root": "site"} if given else {}
    with pytest.raises(UsageError) as caught:
        gather({**root, **given}, {}, {}, "")
    assert str(caught.value) == message


def test_port_0_may_be_given_twice() -> None:
    settings = gather({"root": "site", "listen": "127.0.0.1:0", "admin": "127.0.0.1:0"}, {}, {}, "")
    assert settings.admin == settings.listen


anything = st.one_of(
    st.text(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.lists(st.integers()),
    st.integers(0, 4).map(lambda n: 10**n),
)


@given(
    st.dictionaries(st.sampled_from(KEYS), st.text(), max_size=6),
    st.dictionaries(st.sampled_from([spec.variable for spec in OPTIONS]) | st.text(), st.text(), max_size=6),
    st.dictionaries(st.sampled_from(KEYS) | st.text(), anything, max_size=6),
)
def test_garbage_is_a_usage_error_and_nothing_else(
    command_line: dict[str, str], environment: dict[str, str], file: dict[str, object]
) -> None:
    with contextlib.suppress(UsageError):
        gather(command_line, environment, file, "q.toml")


def test_a_number_of_thousands_of_digits_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"^q.toml: grace: "):
        from_file({"root": "site", "grace": 1 << 20_000})


@pytest.mark.parametrize(
    "variable", ["QOSWEB_PORT", "QOSWEB_PORT_80_TCP_ADDR", "QOSWEB_SERVICE_HOST", "QOSWEB_SERVICE_PORT"]
)
def test_variables_of_kubernetes_services_are_ignored(variable: str) -> None:
    assert gather({"root": "site"}, {variable: "tcp://10.0.0.1:80"}, {}, "").root == Path("site")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"bootstrap": "yes"}, "needs its key: --key-file"),
        ({"join": "h:1"}, "needs its key: --key-file"),
        ({"join": "h:1", "bootstrap": "yes", "key-file": "k"}, "give only one of them"),
        ({"group": "h:1"}, "give --bootstrap to found one, or --join"),
        ({"group": "127.0.0.1:8080", "bootstrap": "yes", "key-file": "k"}, "different ports"),
        ({"cluster-id": "qosweb+1a2b3c4d"}, "give --join HOST:PORT as well"),
        ({"cluster-id": "my cluster"}, "is not a cluster id, such as qosweb"),
        ({"bootstrap": "maybe"}, "neither yes nor no"),
        ({"join": "h"}, "is not an address"),
        ({"public-url": "ftp://h"}, "is not the address of a server"),
    ],
)
def test_options_of_a_cluster_member_are_validated(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        gather({"root": "site", **given}, {}, {}, "")


def test_a_list_of_addresses_in_the_file() -> None:
    settings = from_file({"root": "site", "join": ["a:1", "b:2"], "key-file": "k", "bootstrap": False})
    assert settings.join == (Address("a", 1), Address("b", 2))


def test_a_list_of_host_names_for_the_admin_port() -> None:
    assert from_file({"root": "site", "admin-host": ["n1.example", "n1"]}).admin_host == ("n1.example", "n1")
    for name in ("n1:8081", "http://n1", "n 1", "*"):
        with pytest.raises(UsageError, match=r"--admin-host: '.*' is not a host name"):
            gather({"root": "site", "admin-host": name}, {}, {}, "")


def test_trusted_proxies_are_networks_of_both_versions() -> None:
    settings = from_file({"root": "site", "trust-proxy": ["10.0.0.0/8", "2001:db8::1"]})
    assert settings.trust_proxy == (ip_network("10.0.0.0/8"), ip_network("2001:db8::1/128"))
    assert gather({"root": "site", "trust-proxy": "10.0.0.1"}, {}, {}, "").trust_proxy == (ip_network("10.0.0.1/32"),)


def test_extra_log_fields_are_those_of_the_log() -> None:
    assert tuple(EXTRA_FIELDS) == LOG_FIELDS
    settings = from_file({"root": "site", "access-log-fields": ["query", "referer", "query"]})
    assert settings.access_log_fields == ("query", "referer")
