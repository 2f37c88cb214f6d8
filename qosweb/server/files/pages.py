"""Pages: files loaded for serving, with validators, a serialised head and precompressed variants.

A page that fits in memory is read completely. The file's version is checked before and after, so the bytes are of one
version. Its entity tag is a digest of the bytes, equal on all nodes that have the same bytes. A larger file stays on
disk; its entity tag is made of size and modification time.
"""

import base64
import hashlib
import os
import pwd
import time
from dataclasses import dataclass, field

from qosweb.http.dates import format_http_date
from qosweb.http.encodings import choose_encoding
from qosweb.http.media import media_type
from qosweb.http.preconditions import Validators
from qosweb.http.targets import RequestTarget
from qosweb.server.files.files import FileVersion, FoundFile, IsDirectory, NotServed, RootGone, SiteFolder, version_of
from qosweb.server.request.answers import NOSNIFF, FileSpan, Segment, serialise_head

NEIGHBOURS = (("zstd", ".zst"), ("br", ".br"), ("gzip", ".gz"))

# A file written this recently may be written again without a change of its times (their resolution is coarse).
UNSETTLED_S = 2.0
# The timestamp resolution of most file systems. A file written within this time is read again.
GRAIN_S = 0.02
READ_TRIES = 5
READ_AGAIN_AFTER_S = 0.02
CHOICES_MAX = 32
CHOICE_LENGTH_MAX = 128
WIRE_BODY_MAX = 64 << 10


class KeepsChanging(Exception):
    """The file changed during every attempt to read it."""


@dataclass(slots=True, eq=False)
class Page:
    """One representation of one file."""

    name: bytes
    identity: FileVersion
    encoding: str | None
    media_type: str
    validators: Validators
    body: bytes | None  # None: on disk
    head: bytes = b""  # of a plain 200; see Answer.head
    # A serialised plain 200 for the second `wire_second`: head and body, or only the head if the body is large.
    wire: bytes = b""
    wire_second: int = -1
    wire_has_body: bool = True
    wire_line: bytes = b""  # the lines of the QoS class in `wire`
    log_part: str = ""  # of an access log line: from the path up to the class
    log_tail: str = ""  # of an access log line: after the class
    wire_log_part: str = ""  # of an access log line: the class of `wire`, with both parts around it
    folder_fields: tuple[tuple[str, str], ...] = ()  # see `SiteFolder.fields`
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = self.identity.size

    @property
    def mtime_ns(self) -> int:
        return self.identity.mtime_ns

    @property
    def owner(self) -> str | None:
        """The name of the user who owns the file. Accesses the disk."""
        try:
            return pwd.getpwuid(os.stat(self.name).st_uid).pw_name
        except (OSError, KeyError):
            return None

    def set_wire(self, second: int, date_line: bytes, class_line: bytes, class_quoted: str) -> None:
        """Serialise the response of a page in memory, for one second and one class, and the page's part of log lines.

        Each class has its own ``class_line``, an object that is replaced when its text changes.
        """
        assert self.body is not None
        self.wire_second = second
        self.wire_line = class_line
        self.wire_has_body = self.size <= WIRE_BODY_MAX
        self.wire = b"".join((self.head, class_line, date_line, b"\r\n", self.body if self.wire_has_body else b""))
        self.wire_log_part = f"{self.log_part}{class_quoted}{self.log_tail}"

    def segments(self) -> tuple[Segment, ...]:
        return (self.body,) if self.body is not None else (self.part(0, self.size),)

    def part(self, offset: int, length: int) -> Segment:
        if self.body is not None:
            return self.body[offset : offset + length]
        return FileSpan(self.name, self.identity, offset, length)


@dataclass(slots=True, eq=False)
class Resource:
    """The content of a path: a page and its precompressed variants."""

    key: str
    plain: Page
    encoded: dict[str, Page]
    watched: tuple[tuple[bytes, FileVersion | None], ...]
    settled: bool
    fresh_until: float = 0.0
    recently_used: bool = True
    _choices: dict[str | None, Page] = field(default_factory=dict)

    def page_for(self, accept_encoding: str | None) -> Page:
        if not self.encoded:
            return self.plain
        page = self._choices.get(accept_encoding)
        if page is None:
            coding = choose_encoding(accept_encoding, [(name, page.size) for name, page in self.encoded.items()])
            page = self.plain if coding is None else self.encoded[coding]
            if len(self._choices) >= CHOICES_MAX:
                self._choices.clear()
            if accept_encoding is None or len(accept_encoding) <= CHOICE_LENGTH_MAX:
                self._choices[accept_encoding] = page
        return page

    def is_current(self) -> bool:
        """Whether the files on disk are still the versions that were read."""
        return self.settled and all(version_of(name) == identity for name, identity in self.watched)

    @property
    def cost(self) -> int:
        """Approximate bytes of memory. A small body counts twice, because the serialised response has it, too."""
        return sum(2048 + len(page.body or b"") + _wire_cost(page) for page in (self.plain, *self.encoded.values()))


@dataclass(frozen=True, slots=True)
class Moved:
    """The path names a directory and lacks the final slash."""

    location: str


def load(
    root: SiteFolder, target: RequestTarget, index: str, file_max: int, key: str | None = None
) -> Resource | Moved:
    """Load the resource of ``target``, which the store keeps under ``key`` (default: its path). Blocks on the disk.

    Raises NotServed, KeepsChanging, or OSError (RootGone among them).
    """
    segments = (*target.segments, index) if target.is_directory else target.segments
    key = target.escaped_path if key is None else key
    now_s = time.time()
    try:
        found = root.find(segments)
        plain = _read_page(root, found, None, media_type(segments[-1]), file_max, now_s)
    except IsDirectory:
        if target.is_directory:
            raise NotServed(target.path) from None
        return Moved(target.escaped_path + "/")
    except NotServed:
        if not root.is_there():  # a lost mount must not make every page a 404
            raise RootGone("the folder of the site is missing") from None
        raise

    encoded: dict[str, Page] = {}
    is_fixed = found.validators is not None
    watched: list[tuple[bytes, FileVersion | None]] = [(found.name, plain.identity)]
    for coding, suffix in NEIGHBOURS:
        try:
            neighbour_file = root.find(segments, suffix)
        except (NotServed, OSError):
            continue
        try:
            neighbour = _read_page(root, neighbour_file, coding, plain.media_type, file_max, now_s)
        except (NotServed, KeepsChanging, OSError):
            watched.append((neighbour_file.name, version_of(neighbour_file.name)))
            continue
        watched.append((neighbour_file.name, neighbour.identity))
        # an older variant was made from an older page
        if is_fixed or neighbour.identity.mtime_ns >= plain.identity.mtime_ns:
            encoded[coding] = neighbour

    pages = (plain, *encoded.values())
    for page in pages:
        page.folder_fields = root.fields
        page.head = _head(page, varies=bool(encoded))
    if is_fixed:
        return Resource(key, plain, encoded, (), settled=True)
    newest_s = max(max(identity.mtime_ns, identity.ctime_ns) for _, identity in watched if identity) / 1e9
    return Resource(key, plain, encoded, tuple(watched), settled=now_s - newest_s > UNSETTLED_S)


def _read_page(
    root: SiteFolder, found: FoundFile, encoding: str | None, kind: str, file_max: int, now_s: float
) -> Page:
    name, validators = found
    for attempt in range(READ_TRIES):
        if attempt:
            time.sleep(READ_AGAIN_AFTER_S)
        descriptor, identity = root.open(name)
        try:
            is_new = abs(time.time() - identity.ctime_ns / 1e9) < GRAIN_S
            if is_new and validators is None and attempt < READ_TRIES - 1:
                continue  # the next version might have the same times
            if identity.size > file_max:
                validators = validators or _validators_by_time(identity, encoding, now_s)
                return Page(name, identity, encoding, kind, validators, None)
            body = _read_all(descriptor, identity.size)
            if body is not None and FileVersion.of(os.fstat(descriptor)) == identity:
                validators = validators or _validators_by_content(identity, encoding, body, now_s)
                return Page(name, identity, encoding, kind, validators, body)
        finally:
            os.close(descriptor)
    raise KeepsChanging(name)


def _read_all(descriptor: int, size: int) -> bytes | None:
    """The ``size`` bytes of the file; None if it has more or fewer."""
    parts: list[bytes] = []
    missing = size
    while missing:
        part = os.read(descriptor, missing)
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
    return None if os.read(descriptor, 1) else b"".join(parts)


def _validators_by_content(identity: FileVersion, encoding: str | None, body: bytes, now_s: float) -> Validators:
    """The entity tag depends on the coding, too: two representations never share one, even with equal bytes."""
    digest = hashlib.blake2b(body, digest_size=15, person=(encoding or "").encode()).digest()
    return Validators(f'"{base64.urlsafe_b64encode(digest).decode()}"', min(identity.mtime_s, int(now_s)))


def _validators_by_time(identity: FileVersion, encoding: str | None, now_s: float) -> Validators:
    tag = f"{identity.size:x}-{identity.mtime_ns:x}{'-' + encoding if encoding else ''}"
    if now_s - identity.mtime_ns / 1e9 < UNSETTLED_S:
        # Written just now: the next version may have the same mtime. ctime differs, but also between nodes.
        tag += f"-{identity.ctime_ns:x}"
    return Validators(f'"{tag}"', min(identity.mtime_s, int(now_s)))


def _wire_cost(page: Page) -> int:
    return len(page.body) if page.body is not None and len(page.body) <= WIRE_BODY_MAX else 0


def _head(page: Page, *, varies: bool) -> bytes:
    return serialise_head(200, [("Content-Length", str(page.size)), *page_fields(page, varies=varies)])


def page_fields(page: Page, *, varies: bool) -> list[tuple[str, str]]:
    """The header fields of every response with the page or a part of it, except Content-Length."""
    fields = [
        ("Content-Type", page.media_type),
        *validator_fields(page, varies=varies),
        ("Accept-Ranges", "bytes"),
        NOSNIFF,
    ]
    if page.encoding is not None:
        fields.append(("Content-Encoding", page.encoding))
    return fields


def validator_fields(page: Page, *, varies: bool) -> list[tuple[str, str]]:
    """The header fields that a 304 repeats from the 200."""
    fields = [("ETag", page.validators.etag), ("Last-Modified", format_http_date(page.validators.modified_s))]
    if varies:
        fields.append(("Vary", "Accept-Encoding"))
    return [*fields, *page.folder_fields]
