"""Manifest of a release: the path, content digest, size and time of each file. Its own digest identifies the release.

A manifest is JSON with sorted paths, so that equal releases have equal bytes. Pure.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

FILES_MAX = 100_000
MANIFEST_LEN_MAX = 64 << 20
PATH_BYTES_MAX = 4096
SEGMENT_BYTES_MAX = 255
DIGEST_LEN = 64
_HEX = frozenset("0123456789abcdef")


class BadManifest(ValueError):
    """The bytes are not a valid manifest. The text says why."""


class ManifestFile(msgspec.Struct, frozen=True, array_like=True):
    """One file of a release."""

    path: str  # relative, with slashes
    digest: str  # SHA-256 of its content, in hexadecimal
    size: int
    mtime_s: int  # when it was last modified, where it was published


class Manifest(msgspec.Struct, frozen=True):
    """All files of a release, sorted by path."""

    files: tuple[ManifestFile, ...]
    version: int = 1

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)

    @property
    def content(self) -> dict[str, str]:
        """The digest of each path."""
        return {one.path: one.digest for one in self.files}


def make_manifest(files: Iterable[ManifestFile]) -> Manifest:
    return Manifest(tuple(sorted(files, key=lambda one: one.path)))


_decode = msgspec.json.Decoder(Manifest).decode


def encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def decode_manifest(data: bytes) -> Manifest:
    """Decode and check a manifest. Raises BadManifest."""
    try:
        manifest = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadManifest(f"not a manifest: {error}") from None
    if manifest.version != 1:
        raise BadManifest(f"a manifest of version {manifest.version}; this version of qosweb reads version 1")
    if len(manifest.files) > FILES_MAX:
        raise BadManifest(f"{len(manifest.files):,} files; a release has at most {FILES_MAX:,}")
    last = ""
    paths: set[str] = set()
    for one in manifest.files:
        why = check_path(one.path)
        if why:
            raise BadManifest(f"the path {one.path!r} {why}")
        if not is_digest(one.digest):
            raise BadManifest(f"{one.path}: {one.digest!r} is not a SHA-256 digest in hexadecimal")
        if one.size < 0:
            raise BadManifest(f"{one.path}: the size {one.size} is negative")
        if one.path <= last:
            raise BadManifest(f"{one.path}: the paths are not sorted, or one occurs twice")
        folder = one.path.rpartition("/")[0]
        while folder:
            if folder in paths:
                raise BadManifest(f"{folder} is both a file and a folder")
            folder = folder.rpartition("/")[0]
        paths.add(last := one.path)
    return manifest


def digest_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    return len(text) == DIGEST_LEN and _HEX.issuperset(text)


def check_path(path: str) -> str:
    """Why a file with this path cannot be served; empty if it can be."""
    try:
        data = path.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    if not path or len(data) > PATH_BYTES_MAX:
        return f"is empty or has more than {PATH_BYTES_MAX} bytes"
    for at, segment in enumerate(path.split("/")):
        if not segment or len(segment.encode()) > SEGMENT_BYTES_MAX:
            return f"has a segment that is empty or has more than {SEGMENT_BYTES_MAX} bytes"
        if segment.startswith(".") and not (at == 0 and segment == ".well-known"):
            return "has a hidden segment, which is never served"
        if "\\" in segment or any(ord(one) < 32 or ord(one) == 127 for one in segment):
            return "has a backslash or a control character"
    return ""
