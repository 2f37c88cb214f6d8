"""Blob fetcher: gets the files of releases that this node lacks. The only place where a node obtains them.

`obtain_all` gets what is missing of a whole release, before the release becomes current; another way to distribute
releases, such as multicast, delivers into the blob store before or inside it. `obtain` gets one file for a client that
waits for it. Fetches have threads of their own, so that they delay no upload.
Above: `release_keeper`.  Below: `peer_blobs`.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from qosweb.releases.blob_store import WrongContent
from qosweb.server.releases.peer_blobs import obtain_blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.manifest import Manifest, ManifestFile
    from qosweb.server.releases.peer_blobs import BlobKey

FETCHERS = 4

Result = TypeVar("Result")


class BlobFetcher:
    """Fetches blobs from the other nodes."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._key: BlobKey | None = None
        self._peers: Callable[[], Sequence[str]] = tuple
        self._threads = ThreadPoolExecutor(FETCHERS, thread_name_prefix="blob-fetcher")
        self._guard = Lock()
        self._locks: dict[str, tuple[Lock, int]] = {}  # of blobs that are being fetched, and how many fetch each

    def join(self, key: BlobKey, peers: Callable[[], Sequence[str]]) -> None:
        """This node is a member of a cluster. `peers`: addresses of the other nodes (http://host:port)."""
        self._key, self._peers = key, peers

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def obtain_all(self, files: Iterable[ManifestFile]) -> None:
        """Get all of `files` that are missing here. Raises OSError."""
        wanted = {one.digest: one for one in files}
        missing = await self._in_thread(partial(self._check_missing, wanted))
        fetches = [self._in_thread(partial(self._obtain, wanted[one], is_urgent=False)) for one in missing]
        results = await asyncio.gather(*fetches, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def obtain_manifest(self, digest: str) -> Manifest:
        """Raises OSError, BadManifest."""
        return await self._in_thread(partial(self._obtain_manifest, digest))

    def obtain(self, file: ManifestFile) -> None:
        """Get a file for a client, unless it is here. Blocks. Raises OSError."""
        self._obtain(file, is_urgent=True)

    def _obtain(self, file: ManifestFile, *, is_urgent: bool) -> None:
        self._fetch(file.digest, file.mtime_s, file.size, is_urgent=is_urgent)

    def _check_missing(self, wanted: dict[str, ManifestFile]) -> list[str]:
        missing = self._blobs.missing(wanted.values())
        self._blobs.check_space(sum(wanted[one].size for one in missing))
        return missing

    def _obtain_manifest(self, digest: str) -> Manifest:
        try:
            self._fetch(digest, None, None, is_urgent=True)  # clients may wait for the release
            return self._blobs.read_manifest(digest)
        except WrongContent:
            self._fetch(digest, None, None, is_urgent=True)
            return self._blobs.read_manifest(digest)

    def _fetch(self, digest: str, mtime_s: int | None, size: int | None, *, is_urgent: bool) -> None:
        with self._alone(digest):
            if self._blobs.has(digest, size):
                return
            if self._key is None:
                raise FileNotFoundError(f"file {digest[:12]} of a release is missing, and there is no other node")
            obtain_blob(self._blobs, self._key, self._peers(), digest, mtime_s, size, is_urgent=is_urgent)

    @contextmanager
    def _alone(self, digest: str) -> Iterator[None]:
        """Only one thread at a time fetches a blob."""
        with self._guard:
            lock, users = self._locks.get(digest, (Lock(), 0))
            self._locks[digest] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, users = self._locks.pop(digest)
                if users > 1:
                    self._locks[digest] = lock, users - 1

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
