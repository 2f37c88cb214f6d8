"""Release tree: the files of one release as a folder of the page store. A file that is missing here is fetched first.

Implements what `qosweb.server.files.pages.load` needs of a root folder (`SiteFolder`).
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from qosweb.http.preconditions import Validators
from qosweb.server.files.files import FileVersion, FoundFile, IsDirectory, NotServed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qosweb.admission.link_map import PageFile
    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.manifest import Manifest, ManifestFile

    Obtain = Callable[[ManifestFile], None]  # fetches a missing blob; blocks; raises OSError


class BlobFolder:
    """Root of the page store at a node with releases. A request whose release was not chosen finds nothing."""

    fields: tuple[tuple[str, str], ...] = ()

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def find(self, segments: tuple[str, ...], suffix: str = "") -> FoundFile:
        raise NotServed("/".join(segments) + suffix)

    def open(self, name: bytes) -> tuple[int, FileVersion]:
        return open_blob(name)

    def is_there(self) -> bool:
        return self._blobs.folder.is_dir()


class ReleaseTree(BlobFolder):
    """The files of a release by their paths."""

    def __init__(self, manifest: Manifest, blobs: BlobStore, obtain: Obtain) -> None:
        super().__init__(blobs)
        self.files = {one.path: one for one in manifest.files}
        self.folders: set[str] = {""}
        for path in self.files:
            at = path.rfind("/")
            while at > 0 and path[:at] not in self.folders:
                self.folders.add(path[:at])
                at = path.rfind("/", 0, at)
        self._obtain = obtain

    def page_files(self) -> Iterator[PageFile]:
        """All files, for the links between pages."""
        for path, file in self.files.items():
            stamp = int(file.digest[:16], 16), int(file.digest[16:32], 16), file.size
            yield f"/{path}", str(self._blobs.path_of(file.digest)), stamp

    def find(self, segments: tuple[str, ...], suffix: str = "") -> FoundFile:
        """Raises NotServed, IsDirectory, or OSError if the file is missing here and cannot be fetched."""
        path = "/".join(segments) + suffix
        file = self.files.get(path)
        if file is None:
            raise IsDirectory(path) if path in self.folders else NotServed(path)
        name = self._blobs.path_of(file.digest)
        if not self._blobs.has(file.digest, file.size):
            self._obtain(file)
        tag = urlsafe_b64encode(bytes.fromhex(file.digest)[:15]).decode()
        return FoundFile(os.fsencode(name), Validators(f'"{tag}{suffix}"', file.mtime_s))


class SiteView:
    """A release as some clients get it: with the header fields of its activation."""

    __slots__ = ("fields", "find", "is_there", "key_prefix", "number", "open")

    def __init__(self, tree: ReleaseTree, number: int, fields: tuple[tuple[str, str], ...], key_prefix: str) -> None:
        self.number = number  # of the activation
        self.fields = fields
        self.key_prefix = key_prefix  # of its pages in the page store
        self.find, self.open, self.is_there = tree.find, tree.open, tree.is_there


def open_blob(name: bytes) -> tuple[int, FileVersion]:
    """Raises NotServed if it was collected."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotServed(name) from None
    return descriptor, FileVersion.of(os.fstat(descriptor))
