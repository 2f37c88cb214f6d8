"""What ``qosweb serve`` can be told, and the three ways to tell it. Pure.

Each field of :class:`ServeSettings` is an option of the command line (``--cache-size``), a key of the TOML file
(``cache-size``) and an environment variable (``QOSWEB_CACHE_SIZE``). The command line wins over the environment,
the environment over the file, the file over the default.
"""

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qosweb.errors import UsageError
from qosweb.units import Address, format_size, parse_address, parse_count, parse_duration_s, parse_size
from qosweb.webqos.values import BadValue, rate_bps

ENV_PREFIX = "QOSWEB_"

# Kubernetes sets these for every pod beside a service that is called qosweb (or qosweb-something).
_OF_AN_ORCHESTRATOR = re.compile(ENV_PREFIX + r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)$")
HEAD_SIZE_MAX = 64 << 20  # what may be allowed; a head is held in memory


def _option(parse: Callable[[str], object], metavar: str, text: str, **default: Any) -> Any:
    return field(metadata={"parse": parse, "metavar": metavar, "help": text}, **default)


def _positive(parse: Callable[[str], float]) -> Callable[[str], float]:
    def parse_positive(text: str) -> float:
        value = parse(text)
        if value <= 0:
            raise ValueError(f"'{text}' must be more than 0")
        return value

    return parse_positive


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError(f"'{text}' is not a path")
    return Path(text)


def _log_file(text: str) -> str:
    return text if text in ("-", "none") else str(_path(text))


def _log_format(text: str) -> str:
    if text not in ("json", "combined"):
        raise ValueError(f"'{text}' is not a log format; use json or combined")
    return text


def _optional_address(text: str) -> Address | None:
    return None if text.strip().lower() in ("none", "off") else parse_address(text)


def _node_name(text: str) -> str:
    if not text or len(text) > 64 or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in text):
        raise ValueError(f"'{text}' is not a node name; use up to 64 letters, digits, '-', '_' and '.'")
    return text


def _file_name(text: str) -> str:
    if not text or "/" in text or text.startswith(".") or not text.isprintable():
        raise ValueError(f"'{text}' is not a plain file name, such as index.html")
    return text


def parse_byte_rate(text: str) -> int:
    """A rate such as 2MB/s. Raises ValueError."""
    if not any(one.isalpha() for one in text):
        raise ValueError(f"'{text}' has no unit (such as 2MB/s)")  # in a specification a bare number is of KB
    try:
        rate = rate_bps(text.strip())
    except BadValue as bad:
        raise ValueError(f"{bad.message}{f' ({bad.hint})' if bad.hint else ''}") from None
    if rate <= 0:
        raise ValueError(f"'{text}' must be more than 0")
    return rate


def _yes_or_no(text: str) -> bool:
    word = text.strip().lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise ValueError(f"'{text}' is neither yes nor no")


def _addresses(text: str) -> tuple[Address, ...]:
    return tuple(parse_address(one.strip()) for one in text.split(",") if one.strip())


def _origin(text: str) -> str:
    if not re.fullmatch(r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?/?", text):
        raise ValueError(f"'{text}' is not the address of a server, such as http://127.0.0.1:9000")
    return text.rstrip("/")


_seconds = _positive(parse_duration_s)


def _at_least_one(text: str) -> int:
    return int(_positive(parse_count)(text))


def _some_bytes(text: str) -> int:
    size = int(_positive(parse_size)(text))
    if size > HEAD_SIZE_MAX:
        raise ValueError(f"'{text}' must be at most {format_size(HEAD_SIZE_MAX)}")
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    root: Path = _option(_path, "DIR", "serve the files under DIR (required)")
    spec: Path | None = _option(
        _path, "FILE", "the site's WebQoS specification; without one there is one class", default=None
    )
    name: str = _option(_node_name, "N", "this node's name in logs and status; else the host's name", default="")
    listen: Address = _option(parse_address, "H:P", "public HTTP address", default=Address("127.0.0.1", 8080))
    admin: Address | None = _option(
        _optional_address, "H:P", "admin address, or none", default=Address("127.0.0.1", 8081)
    )
    admin_token_file: Path | None = _option(
        _path, "F", "file with the bearer token of the admin port; required beyond loopback", default=None
    )
    group: Address | None = _option(
        parse_address, "H:P", "where the other nodes of the cluster reach this one", default=None
    )
    join: tuple[Address, ...] = _option(
        _addresses, "H:P", "join the cluster of the node at this group address; may be repeated", default=()
    )
    bootstrap: bool = _option(_yes_or_no, "", "found a cluster, with this node as its first: once", default=False)
    data_dir: Path | None = _option(
        _path, "DIR", "where a member keeps what it promised; without, it comes back as another node", default=None
    )
    key_file: Path | None = _option(_path, "F", "the cluster's key; python -m cluster key FILE makes one", default=None)
    public_url: str = _option(_origin, "URL", "where clients reach this node; else its --listen address", default="")
    order_log: Path | None = _option(_path, "FILE", "a line for each entry of the cluster's order", default=None)
    index: str = _option(_file_name, "NAME", "the page that stands for its directory", default="index.html")

    tls_cert: Path | None = _option(_path, "F", "certificate chain (PEM): serve HTTPS", default=None)
    tls_key: Path | None = _option(_path, "F", "private key (PEM) of --tls-cert", default=None)

    access_log: str = _option(_log_file, "FILE", "access log; - is standard output, none is no log", default="-")
    access_log_format: str = _option(_log_format, "json|combined", "form of its lines", default="json")
    access_log_rotate: int = _option(parse_size, "SIZE", "start a new file at this size; 0 is never", default=256 << 20)
    access_log_keep: int = _option(_at_least_one, "N", "how many rotated files are kept", default=8)

    cache_size: int = _option(parse_size, "SIZE", "memory for pages", default=128 << 20)
    cache_file_max: int = _option(
        parse_size, "SIZE", "a larger file is sent from disk, not kept in memory", default=1 << 20
    )
    cache_fresh: float = _option(
        parse_duration_s, "TIME", "how long a page is served before its file is looked at again", default=1.0
    )

    upstream: str | None = _option(
        _origin,
        "URL",
        "what is no file under --root is asked of this server, such as http://127.0.0.1:9000",
        default=None,
    )
    upstream_timeout: float = _option(_seconds, "TIME", "how long --upstream may be silent; then 504", default=30.0)
    capacity: int | None = _option(
        parse_byte_rate, "RATE", "this node's pipe, such as 2MB/s: answers are paced by their channels", default=None
    )

    max_connections: int = _option(_at_least_one, "N", "connections in total", default=12_000)
    max_connections_per_client: int = _option(
        _at_least_one, "N", "connections of one client address (IPv6: one /64)", default=1_000
    )
    max_request_line: int = _option(_some_bytes, "SIZE", "longest request line; beyond it 414", default=8 << 10)
    max_header_size: int = _option(_some_bytes, "SIZE", "largest request head; beyond it 431", default=32 << 10)
    max_headers: int = _option(_at_least_one, "N", "most header fields of a request; beyond it 431", default=100)
    max_open_files: int = _option(_at_least_one, "N", "files sent from disk at one time; beyond it 503", default=1_000)

    header_timeout: float = _option(_seconds, "TIME", "a request head must be complete in this time", default=10.0)
    idle_timeout: float = _option(_seconds, "TIME", "a connection without a request is closed", default=60.0)
    send_timeout: float = _option(
        _seconds, "TIME", "a reader that takes less than 16KB in this time is cut off", default=30.0
    )
    grace: float = _option(parse_duration_s, "TIME", "how long SIGTERM waits for requests in service", default=10.0)

    @property
    def is_member(self) -> bool:
        """It belongs to a cluster of several nodes, or is to found one."""
        return self.bootstrap or bool(self.join)


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One setting as the user meets it."""

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
        return self.parse is _yes_or_no

    @property
    def is_list(self) -> bool:
        """May be given more than once."""
        return self.parse is _addresses

    @property
    def has_default(self) -> bool:
        """One that is worth showing."""
        return self.key != "root" and self.default is not False and self.default not in (None, "", ())

    @property
    def shown_default(self) -> str:
        if self.parse in (parse_size, _some_bytes):
            return format_size(int(str(self.default)))
        if self.parse in (_seconds, parse_duration_s):
            return f"{self.default:g}s"
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


def did_you_mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def gather(
    command_line: Mapping[str, str],
    environment: Mapping[str, str],
    file: Mapping[str, object],
    file_name: str,
) -> ServeSettings:
    """The settings in force. ``command_line`` maps option keys to texts, ``file`` is the parsed TOML."""
    by_key = {spec.key: spec for spec in OPTIONS}
    values: dict[str, object] = {}

    for key, raw in file.items():
        spec = by_key.get(key.replace("_", "-"))
        if spec is None:
            raise UsageError(f"{file_name}: unknown key '{key}'{did_you_mean(key, by_key)}")
        if isinstance(raw, list) and spec.parse is _addresses and all(isinstance(one, str) for one in raw):
            raw = ",".join(raw)
        if not isinstance(raw, str | int | float) or (isinstance(raw, bool) and spec.parse is not _yes_or_no):
            raise UsageError(f"{file_name}: {key}: expected a text or a number, not {_kind(raw)}")
        if spec.field_name in values:
            raise UsageError(f"{file_name}: {key}: given twice, with '-' and with '_'; once is right")
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

    if "root" not in values:
        raise UsageError("no root: say which folder to serve with --root DIR")
    settings = ServeSettings(**values)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def _check_together(settings: ServeSettings) -> None:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        missing = "--tls-key" if settings.tls_key is None else "--tls-cert"
        raise UsageError(f"TLS needs both --tls-cert and --tls-key; {missing} is missing")
    if settings.max_request_line > settings.max_header_size:
        raise UsageError(
            f"--max-request-line {format_size(settings.max_request_line)} is larger than --max-header-size "
            f"{format_size(settings.max_header_size)}, which includes it; lower the one or raise the other"
        )
    _check_group(settings)
    admin = settings.admin
    if admin is not None and not admin.is_loopback and settings.admin_token_file is None:
        raise UsageError(f"admin address {admin} is not loopback: it needs --admin-token-file FILE")
    if admin is not None and admin == settings.listen and admin.port != 0:
        raise UsageError(f"--listen and --admin are both {admin}; give them different ports")


def _check_group(settings: ServeSettings) -> None:
    """One node alone needs none of it; a member needs the cluster's key."""
    if settings.bootstrap and settings.join:
        raise UsageError("--bootstrap founds a cluster and --join enters one; give one of them")
    if settings.is_member and settings.key_file is None:
        raise UsageError("a node of a cluster needs its key: --key-file FILE ('python -m cluster key FILE' makes one)")
    if settings.group is not None and not settings.is_member:
        raise UsageError("--group is for a node of a cluster: say --bootstrap to found one, or --join HOST:PORT")
    if settings.group is not None and settings.group in (settings.listen, settings.admin) and settings.group.port:
        raise UsageError(f"--group is {settings.group}, as another address of this node; give them different ports")


def _parse(spec: OptionSpec, text: str, where: str) -> object:
    try:
        return spec.parse(text)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _text_of(value: str | float) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes out no number of thousands of digits
        return "(a number of thousands of digits)"


def _kind(value: object) -> str:
    return {bool: "a boolean", list: "a list", dict: "a table"}.get(type(value), type(value).__name__)
