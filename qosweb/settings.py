"""Settings of ``qosweb serve``: definitions, validation, and precedence of their sources. Pure.

Each field of :class:`ServeSettings` is a command line option (``--cache-size``), a key of the TOML file
(``cache-size``) and an environment variable (``QOSWEB_CACHE_SIZE``). The command line has precedence over the
environment, the environment over the file, the file over the default.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qosweb.errors import UsageError, did_you_mean
from qosweb.http.forwarded import Network
from qosweb.setting_values import (
    LOG_FIELDS,
    parse_addresses,
    parse_byte_rate,
    parse_client_share,
    parse_cluster_id,
    parse_file_name,
    parse_head_size,
    parse_host_names,
    parse_log_fields,
    parse_log_file,
    parse_log_format,
    parse_networks,
    parse_node_name,
    parse_optional_address,
    parse_path,
    parse_positive_size,
    parse_yes_or_no,
)
from qosweb.units import (
    Address,
    format_duration_s,
    format_size,
    parse_address,
    parse_count,
    parse_duration_s,
    parse_positive_duration_s,
    parse_size,
)
from qosweb.upstream_settings import UpstreamSettings, parse_origin, parse_upstreams, upstreams_of_tables

ENV_PREFIX = "QOSWEB_"

# Kubernetes sets these in every pod if a service is called qosweb (or qosweb-something).
_OF_AN_ORCHESTRATOR = re.compile(ENV_PREFIX + r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)$")


def _option(parse: Callable[[str], object], metavar: str, text: str, **default: Any) -> Any:
    return field(metadata={"parse": parse, "metavar": metavar, "help": text}, **default)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings of a node. Help texts, parsers and defaults are in the metadata of the fields."""

    root: Path | None = _option(
        parse_path, "DIR", "serve the files under DIR; required without --site and --upstream", default=None
    )
    site: bool = _option(
        parse_yes_or_no,
        "",
        "serve the releases of 'qosweb publish', which the cluster stores in --data-dir",
        default=False,
    )
    release_grace: float = _option(
        parse_duration_s, "TIME", "how long clients of a replaced release still get its files", default=600.0
    )
    release_keep: int = _option(parse_count, "N", "number of old releases to keep for a rollback", default=10)
    release_keep_age: float = _option(
        parse_positive_duration_s, "TIME", "how long to keep old releases", default=30 * 86_400.0
    )
    multicast: str = _option(
        str, "G:P[%IF]", "multicast group by which nodes give each other releases; the same at all nodes", default=""
    )
    site_max_size: int = _option(parse_positive_size, "SIZE", "largest release", default=10 << 30)
    spec: Path | None = _option(
        parse_path, "FILE", "WebQoS specification of the site; without it all requests are one class", default=None
    )
    name: str = _option(
        parse_node_name, "N", "name of this node in logs and status; default: the host name", default=""
    )
    listen: Address = _option(parse_address, "H:P", "public HTTP address", default=Address("127.0.0.1", 8080))
    admin: Address | None = _option(
        parse_optional_address, "H:P", "address of the admin port, or none", default=Address("127.0.0.1", 8081)
    )
    admin_token_file: Path | None = _option(
        parse_path, "F", "file with the bearer token of the admin port; required unless on loopback", default=None
    )
    admin_host: tuple[str, ...] = _option(
        parse_host_names, "NAME", "host name by which the admin port may be reached; may be repeated", default=()
    )
    group: Address | None = _option(parse_address, "H:P", "address for the other nodes of the cluster", default=None)
    join: tuple[Address, ...] = _option(
        parse_addresses, "H:P", "join the cluster of the node at this group address; may be repeated", default=()
    )
    bootstrap: bool = _option(
        parse_yes_or_no, "", "found a new cluster with this node; only once per cluster", default=False
    )
    data_dir: Path | None = _option(
        parse_path, "DIR", "folder for the replicated state; without it the node restarts as a new node", default=None
    )
    key_file: Path | None = _option(
        parse_path, "F", "key of the cluster; create it with: python -m cluster key FILE", default=None
    )
    cluster_id: str = _option(
        parse_cluster_id,
        "ID",
        "id of the cluster to join, if 'qosweb recover' has changed it; default: the id on the disk, else qosweb",
        default="",
    )
    public_url: str = _option(
        parse_origin, "URL", "address of this node for clients; default: the --listen address", default=""
    )
    order_log: Path | None = _option(parse_path, "FILE", "log each entry of the cluster's total order", default=None)
    index: str = _option(parse_file_name, "NAME", "file name of the index page of a directory", default="index.html")

    error_pages: Path | None = _option(
        parse_path, "DIR", "folder of error pages such as 404.html, 503.html, 5xx.html", default=None
    )

    tls_cert: Path | None = _option(parse_path, "F", "certificate chain (PEM) to serve HTTPS", default=None)
    tls_key: Path | None = _option(parse_path, "F", "private key (PEM) of --tls-cert", default=None)

    access_log: str = _option(parse_log_file, "FILE", "access log; - for standard output, none to disable", default="-")
    access_log_format: str = _option(parse_log_format, "json|combined", "format of the access log", default="json")
    access_log_fields: tuple[str, ...] = _option(
        parse_log_fields,
        "NAME",
        f"more fields of JSON lines: {', '.join(LOG_FIELDS)}; may be repeated",
        default=(),
    )
    access_log_rotate: int = _option(
        parse_size, "SIZE", "start a new log file at this size; 0 means never", default=256 << 20
    )
    access_log_keep: int = _option(parse_count, "N", "number of rotated log files to keep", default=8)

    cache_size: int = _option(parse_size, "SIZE", "memory for cached pages", default=128 << 20)
    cache_file_max: int = _option(
        parse_size, "SIZE", "largest file to cache; larger files are sent from disk", default=1 << 20
    )
    cache_fresh: float = _option(
        parse_duration_s, "TIME", "check the file of a cached page for changes after this time", default=1.0
    )

    upstream: tuple[UpstreamSettings, ...] = _option(
        parse_upstreams,
        "URL",
        "forward requests without a file under --root to this server, such as http://127.0.0.1:9000; may be repeated",
        default=(),
    )
    upstream_timeout: float = _option(
        parse_positive_duration_s, "TIME", "time limit for --upstream to send data; then 504", default=30.0
    )
    upstream_connections: int = _option(parse_count, "N", "most connections to --upstream", default=200)
    max_streams: int = _option(
        parse_count,
        "N",
        "most long streams: event streams, WebSockets, responses that outlast --stream-after",
        default=2_000,
    )
    stream_after: float = _option(
        parse_positive_duration_s,
        "TIME",
        "a response that takes longer no longer counts as an ordinary request",
        default=10.0,
    )
    stream_idle: float = _option(
        parse_positive_duration_s, "TIME", "end a long stream after this time without a byte", default=600.0
    )
    trust_proxy: tuple[Network, ...] = _option(
        parse_networks,
        "NETWORK",
        "believe X-Forwarded-For and Forwarded of proxies with these addresses; may be repeated",
        default=(),
    )
    proxy_protocol: bool = _option(
        parse_yes_or_no,
        "",
        "connections begin with a PROXY header (version 1 or 2); with --trust-proxy only those of these proxies",
        default=False,
    )
    capacity: int | None = _option(
        parse_byte_rate,
        "RATE",
        "bandwidth of this node, such as 2MB/s: all responses together are paced to it",
        default=None,
    )

    find_line: bool = _option(
        parse_yes_or_no,
        "yes|no",
        "find the rate of the outgoing line, and order responses there (Linux; experimental)",
        default=False,
    )

    find_processor: bool = _option(
        parse_yes_or_no,
        "yes|no",
        "while the processor is full, let requests wait and answer them by class",
        default=True,
    )

    max_connections: int = _option(parse_count, "N", "most connections in total", default=12_000)
    max_connections_per_client: int = _option(
        parse_count, "N", "most connections of one client address (IPv6: one /64)", default=1_000
    )
    client_share: int = _option(
        parse_client_share,
        "SHARE",
        "most that one client may hold of all connections, open files and upstream connections",
        default=250_000,
    )
    max_request_line: int = _option(parse_head_size, "SIZE", "longest request line; beyond it 414", default=8 << 10)
    max_header_size: int = _option(parse_head_size, "SIZE", "largest request head; beyond it 431", default=32 << 10)
    max_headers: int = _option(parse_count, "N", "most header fields of a request; beyond it 431", default=100)
    max_body: int = _option(
        parse_positive_size, "SIZE", "largest request body to forward to --upstream; beyond it 413", default=1 << 30
    )
    min_body_rate: int = _option(
        parse_byte_rate, "RATE", "slowest request body, on average; below it 408", default=1 << 10
    )
    body_timeout: float = _option(
        parse_positive_duration_s, "TIME", "time limit for a complete request body; then 408", default=600.0
    )
    max_open_files: int = _option(parse_count, "N", "most files sent from disk at a time; beyond it 503", default=1_000)

    header_timeout: float = _option(
        parse_positive_duration_s, "TIME", "time limit for a complete request head", default=10.0
    )
    idle_timeout: float = _option(
        parse_positive_duration_s, "TIME", "close a connection after this time without a request", default=60.0
    )
    send_timeout: float = _option(
        parse_positive_duration_s, "TIME", "close a connection that accepts less than 16KB in this time", default=30.0
    )
    grace: float = _option(parse_duration_s, "TIME", "time that SIGTERM waits for requests in service", default=10.0)

    @property
    def is_member(self) -> bool:
        """Whether the node joins or founds a cluster."""
        return self.bootstrap or bool(self.join)


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """A setting as command line option, TOML key and environment variable."""

    key: str
    parse: Callable[[str], object]
    metavar: str
    help: str
    default: object

    @property
    def flag(self) -> str:
        return f"--{self.key}"

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.key.replace("-", "_").upper()

    @property
    def is_flag(self) -> bool:
        return self.parse is parse_yes_or_no and not self.metavar

    @property
    def is_list(self) -> bool:
        """Whether the option may be repeated."""
        return self.parse in (parse_addresses, parse_host_names, parse_networks, parse_log_fields, parse_upstreams)

    @property
    def has_default(self) -> bool:
        """Whether the help text shows the default."""
        return self.default is not False and self.default not in (None, "", ())

    @property
    def shown_default(self) -> str:
        if self.parse in (parse_size, parse_positive_size, parse_head_size):
            return format_size(int(str(self.default)))
        if self.parse is parse_byte_rate:
            return f"{format_size(int(str(self.default)))}/s"
        if self.parse is parse_client_share:
            return f"{int(str(self.default)) / 10_000:g}%"
        if self.parse in (parse_positive_duration_s, parse_duration_s):
            return format_duration_s(float(str(self.default)))
        if self.parse is parse_yes_or_no:
            return "yes" if self.default else "no"
        return str(self.default)

    @property
    def field_name(self) -> str:
        return self.key.replace("-", "_")


def _specs() -> tuple[OptionSpec, ...]:
    return tuple(
        OptionSpec(
            f.name.replace("_", "-"),
            f.metadata["parse"],
            f.metadata["metavar"],
            f.metadata["help"],
            f.default,
        )
        for f in dataclasses.fields(ServeSettings)
    )


OPTIONS = _specs()

# The groups of `qosweb serve --help` and of the settings reference, with the keys of their options.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("site", ("root", "spec", "index", "error-pages", "name")),
    ("releases", ("site", "release-grace", "release-keep", "release-keep-age", "site-max-size", "multicast")),
    ("addresses", ("listen", "public-url", "trust-proxy", "proxy-protocol", "tls-cert", "tls-key")),
    ("admin port", ("admin", "admin-token-file", "admin-host")),
    ("cluster", ("bootstrap", "join", "group", "key-file", "data-dir", "cluster-id", "order-log")),
    (
        "capacity and upstream servers",
        (
            "capacity", "find-line", "find-processor", "upstream", "upstream-timeout", "upstream-connections",
            "max-streams", "stream-after", "stream-idle",
        ),
    ),
    ("access log", ("access-log", "access-log-format", "access-log-rotate", "access-log-keep", "access-log-fields")),
    ("page cache", ("cache-size", "cache-file-max", "cache-fresh")),
    (
        "limits",
        (
            "max-connections", "max-connections-per-client", "client-share", "max-request-line", "max-header-size",
            "max-headers", "max-body", "min-body-rate", "max-open-files",
        ),
    ),
    ("timeouts", ("header-timeout", "body-timeout", "idle-timeout", "send-timeout", "grace")),
)  # fmt: skip


def gather(
    command_line: Mapping[str, str],
    environment: Mapping[str, str],
    file: Mapping[str, object],
    file_name: str,
) -> ServeSettings:
    """Merge the sources and validate the result. Raises UsageError.

    ``command_line`` maps option keys to texts, ``file`` is the parsed TOML.
    """
    by_key = {spec.key: spec for spec in OPTIONS}
    values: dict[str, object] = {}

    for key, raw in file.items():
        spec = by_key.get(key.replace("_", "-"))
        if spec is None:
            raise UsageError(f"{file_name}: unknown key '{key}'{did_you_mean(key, by_key)}")
        if isinstance(raw, list) and spec.is_list and all(isinstance(one, str) for one in raw):
            raw = ",".join(raw)
        elif isinstance(raw, list) and key == "upstream" and all(isinstance(one, dict) for one in raw):
            values[key] = upstreams_of_tables(raw, file_name)
            continue
        if not isinstance(raw, str | int | float) or (isinstance(raw, bool) and spec.parse is not parse_yes_or_no):
            raise UsageError(f"{file_name}: {key}: expected a text or a number, not {_kind(raw)}")
        if spec.field_name in values:
            raise UsageError(f"{file_name}: {key}: given twice, with '-' and with '_'; remove one")
        values[spec.field_name] = _parse(spec, _text_of(raw), f"{file_name}: {key}")

    by_variable = {spec.variable: spec for spec in OPTIONS}
    for variable, text in sorted(environment.items()):
        if (
            not variable.startswith(ENV_PREFIX)
            or variable == ENV_PREFIX + "CONFIG"
            or _OF_AN_ORCHESTRATOR.match(variable)
        ):
            continue
        if variable not in by_variable:
            raise UsageError(f"unknown environment variable {variable}{did_you_mean(variable, by_variable)}")
        spec = by_variable[variable]
        values[spec.field_name] = _parse(spec, text, variable)

    for key, text in command_line.items():
        spec = by_key[key]
        values[spec.field_name] = _parse(spec, text, spec.flag)

    if "root" not in values and "upstream" not in values and not values.get("site"):
        raise UsageError(
            "nothing to serve: give the folder with --root DIR, a server with --upstream URL, or --site for releases"
        )
    settings = ServeSettings(**values)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def _check_together(settings: ServeSettings) -> None:
    if settings.site and settings.root is not None:
        raise UsageError("--site serves releases and --root a folder; give only one of them")
    if settings.site and settings.data_dir is None:
        raise UsageError("--site stores releases in --data-dir DIR, which is missing")
    if settings.multicast and not (settings.site and settings.is_member):
        raise UsageError("--multicast distributes the releases of a cluster: give --site, and --bootstrap or --join")
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "--tls-key" if settings.tls_key is None else "--tls-cert"
        raise UsageError(f"TLS needs both --tls-cert and --tls-key; {missing} is missing")
    if settings.max_request_line > settings.max_header_size:
        raise UsageError(
            f"--max-request-line {format_size(settings.max_request_line)} is larger than --max-header-size "
            f"{format_size(settings.max_header_size)}, which includes it; lower the first or raise the second"
        )
    if settings.access_log_fields and settings.access_log_format != "json":
        raise UsageError("--access-log-fields is for --access-log-format json; combined has its own fixed fields")
    _check_group(settings)
    admin = settings.admin
    if admin is not None and not admin.is_loopback and settings.admin_token_file is None:
        raise UsageError(f"admin address {admin} is not loopback: it needs --admin-token-file FILE")
    if admin is not None and admin == settings.listen and admin.port != 0:
        raise UsageError(f"--listen and --admin are both {admin}; give them different ports")


def _check_group(settings: ServeSettings) -> None:
    """Check the options of a cluster. A single node needs none of them; a member needs the key of the cluster."""
    if settings.bootstrap and settings.join:
        raise UsageError("--bootstrap founds a cluster and --join joins one; give only one of them")
    if settings.is_member and settings.key_file is None:
        raise UsageError(
            "a node of a cluster needs its key: --key-file FILE (create it with 'python -m cluster key FILE')"
        )
    if settings.cluster_id and not settings.is_member:
        raise UsageError("--cluster-id is for a node of a cluster: give --join HOST:PORT as well")
    if settings.group is not None and not settings.is_member:
        raise UsageError("--group is for a node of a cluster: give --bootstrap to found one, or --join HOST:PORT")
    if settings.group is not None and settings.group in (settings.listen, settings.admin) and settings.group.port:
        raise UsageError(f"--group {settings.group} equals another address of this node; give them different ports")


def _parse(spec: OptionSpec, text: str, where: str) -> object:
    try:
        return spec.parse(text)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _text_of(value: str | float) -> str:
    try:
        return str(value)
    except ValueError:  # Python does not format integers of thousands of digits
        return "(a number of thousands of digits)"


def _kind(value: object) -> str:
    return {bool: "a boolean", list: "a list", dict: "a table"}.get(type(value), type(value).__name__)
