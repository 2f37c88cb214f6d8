"""Blob store: file contents by their digest, in a folder. Content is written once, verified, and never changed.

    blobs/ab/cd...       complete content, named by its SHA-256
    incoming/DIGEST      content that is being uploaded; an interrupted upload continues at its end
    incoming/DIGEST.peer the same, from another node
    ledger               the ledger of a node without a cluster

Complete content is on disk before it gets its name, so a crash leaves no file with wrong content. All methods block on
the disk: call them in a thread.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from qosweb.releases.manifest import MANIFEST_LEN_MAX, BadManifest, Manifest, decode_manifest, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

    from qosweb.releases.manifest import ManifestFile

PIECE = 1 << 20
SPARE_BYTES = 64 << 20  # that stay free on the disk,
URGENT_SPARE_BYTES = 16 << 20  # also when a client waits for a file: the cluster's state is on the same disk
FROM_PEER = ".peer"  # source of content from another node: it and an upload do not disturb each other
UNUSED_S = 900.0  # content that no release refers to stays this long: it may belong to an upload in progress


class WrongContent(Exception):
    """The content does not have the digest of its name."""


class BlobStore:
    """The blobs of one node."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self.folder = folder
        self._blobs = folder / "blobs"
        self._incoming = folder / "incoming"
        for one in (self._blobs, self._incoming):
            one.mkdir(parents=True, exist_ok=True)

    def path_of(self, digest: str) -> Path:
        return self._blobs / digest[:2] / digest[2:]

    def has(self, digest: str, size: int | None = None) -> bool:
        """Whether a blob is here; with `size`, whether all of it is: the disk may have lost a part of it since."""
        return not self._lacks(str(self.path_of(digest)), size)

    def missing(self, files: Iterable[ManifestFile]) -> list[str]:
        """The digests of those of `files` that are not here, each once. For thousands of them: no Path for each."""
        folder = str(self._blobs)
        size_of = {one.digest: one.size for one in files}
        return [one for one, size in size_of.items() if self._lacks(f"{folder}/{one[:2]}/{one[2:]}", size)]

    @staticmethod
    def _lacks(path: str, size: int | None) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return True
        return not stat.S_ISREG(status.st_mode) or (size is not None and status.st_size != size)

    def remove(self, digest: str) -> None:
        """Delete a blob whose content is wrong."""
        self.path_of(digest).unlink(missing_ok=True)

    def received(self, digest: str, source: str = "") -> int:
        """How many bytes of an incomplete blob have been received."""
        with suppress(FileNotFoundError):
            return (self._incoming / (digest + source)).stat().st_size
        return 0

    def begin(self, digest: str, offset: int, size: int) -> None:
        """So many bytes from `offset` on will be uploaded; 0 begins anew. Raises OSError if the disk has no room."""
        self.check_space(size)
        if not offset:
            (self._incoming / digest).write_bytes(b"")

    def receive(self, digest: str, offset: int, data: bytes, source: str = "") -> None:
        """Add received bytes. Raises ValueError if `offset` is not the end of the received bytes; OSError."""
        with (self._incoming / (digest + source)).open("ab") as file:
            end = file.tell()
            if offset != end:
                raise ValueError(
                    f"{end} bytes have been received, so the next ones have the offset {end}, not {offset}"
                )
            file.write(data)

    def discard(self, digest: str, source: str = "") -> None:
        """Forget the received bytes of a blob."""
        (self._incoming / (digest + source)).unlink(missing_ok=True)

    def copy_in(self, digest: str, source: BinaryIO, size: int, mtime_s: int | None) -> None:
        """Store the next `size` bytes of a file as a blob. Raises WrongContent, OSError."""
        found, left = sha256(), size
        part = self._incoming / f"{digest}.copy"  # not the file of an upload or a fetch of the same blob
        with part.open("wb") as file:
            while left and (piece := source.read(min(PIECE, left))):
                found.update(piece)
                file.write(piece)
                left -= len(piece)
            file.flush()
            os.fsync(file.fileno())
        if left or found.hexdigest() != digest:
            part.unlink()
            raise WrongContent(f"the content has the digest {found.hexdigest()}, not {digest}")
        self._place(part, digest, mtime_s)

    def complete(self, digest: str, mtime_s: int | None = None, source: str = "") -> None:
        """All bytes were received: verify them. Raises WrongContent, and then forgets them; OSError."""
        incoming = self._incoming / (digest + source)
        found = sha256()
        with incoming.open("rb") as file:
            while piece := file.read(PIECE):
                found.update(piece)
            os.fsync(file.fileno())
        if found.hexdigest() != digest:
            incoming.unlink()
            raise WrongContent(f"the content has the digest {found.hexdigest()}, not {digest}")
        self._place(incoming, digest, mtime_s)

    def _place(self, part: Path, digest: str, mtime_s: int | None) -> None:
        if mtime_s is not None:
            os.utime(part, (mtime_s, mtime_s))
        path = self.path_of(digest)
        path.parent.mkdir(exist_ok=True)
        part.chmod(0o444)
        part.replace(path)

    def put(self, data: bytes) -> str:
        """Store content. Returns its digest."""
        digest = digest_of(data)
        if not self.has(digest):
            self.discard(digest)
            self.receive(digest, 0, data)
            self.complete(digest)
        return digest

    def read_manifest(self, digest: str) -> Manifest:
        """Raises FileNotFoundError, BadManifest; WrongContent, and then the blob is deleted, so that it is fetched."""
        path = self.path_of(digest)
        if path.stat().st_size > MANIFEST_LEN_MAX:
            raise BadManifest(f"the manifest has more than {MANIFEST_LEN_MAX:,} bytes")
        data = path.read_bytes()
        if digest_of(data) != digest:
            self.remove(digest)
            raise WrongContent(f"the list of files {digest[:12]} was damaged on this disk; it is deleted here")
        return decode_manifest(data)

    def check_space(self, size: int, *, is_urgent: bool = False) -> None:
        """Raises OSError (ENOSPC) if the disk has no room for `size` more bytes. `is_urgent`: a client waits."""
        free = shutil.disk_usage(self.folder).free
        spare = URGENT_SPARE_BYTES if is_urgent else SPARE_BYTES
        if size and size + spare > free:
            text = f"the disk has {free:,} bytes free; the release needs {size:,} more, and {spare:,} stay free"
            raise OSError(errno.ENOSPC, text)

    def collect(self, used: set[str], now_s: float | None = None) -> int:
        """Delete the blobs that are not in `used`, unless they are recent. Returns how many."""
        before_s = (time.time() if now_s is None else now_s) - UNUSED_S
        count = 0
        for folder in [*self._blobs.iterdir(), self._incoming]:
            for path in list(folder.iterdir()) if folder.is_dir() else ():
                digest = path.stem if folder == self._incoming else folder.name + path.name
                with suppress(FileNotFoundError):
                    if digest not in used and path.stat().st_ctime < before_s:
                        path.unlink()
                        count += 1
        return count

    # ---- the ledger of a node without a cluster

    def read_ledger(self) -> bytes:
        try:
            return (self.folder / "ledger").read_bytes()
        except FileNotFoundError:
            return b""

    def write_ledger(self, state: bytes) -> None:
        path = self.folder / "ledger"
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
