"""Page store: a cache of files in memory, bounded by bytes, revalidated after a short time, evicted by second chance.

A page is served from memory until ``fresh_until``. Then its files are checked with ``stat``, and the page is read again
if they have changed. A few threads read, so that a slow disk delays only the requests that need it. (``stat`` runs on
the event loop: the inode of a file that was read before is normally in memory.) Concurrent requests for one path share
one read, unless that read began too long before the request. Second chance: a page that was used since its last check
for eviction stays.
"""

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from qosweb.http.targets import RequestTarget
from qosweb.server.files.files import NotReadable, NotServed, RootGone, SiteFolder
from qosweb.server.files.pages import KeepsChanging, Moved, Resource, load

READERS = 4
ABSENT_MAX = 16_384

Failure = Moved | NotServed | KeepsChanging | OSError
Loaded = Resource | Failure
Waiter = Callable[[Loaded], None]


@dataclass(slots=True, eq=False)
class _PendingRead:
    """A read in progress and the requests that wait for it."""

    target: RequestTarget
    root: SiteFolder
    current_root: SiteFolder | None  # that of the store when it began
    began: float
    waiters: list[Waiter]
    too_late: list[Waiter] = field(default_factory=list)  # the read is too old for them: they get the next one


class PageStore:
    """Cache of resources by path. The fast path reads ``resources`` directly."""

    def __init__(self, root: SiteFolder | None, *, index: str, memory_max: int, file_max: int, fresh_s: float) -> None:
        self.resources: dict[str, Resource] = {}
        self.memory = 0
        self.reads = 0
        self.evictions = 0
        self.disk_errors = 0
        self.root = root
        self._index = index
        self._memory_max = memory_max
        self._file_max = min(file_max, memory_max)
        self._fresh_s = fresh_s
        self._absent: dict[str, float] = {}  # paths without a file, and until when that is current
        self._reads: dict[str, _PendingRead] = {}
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="page-reader")

    def current(self, key: str, now: float) -> Resource | None:
        """The resource ``key`` if it is in memory and current at ``now`` (monotonic); else None."""
        resource = self.resources.get(key)
        if resource is None:
            return None
        if now < resource.fresh_until:
            return resource
        if resource.is_current():
            resource.fresh_until = now + self._fresh_s
            return resource
        self._drop(resource)
        return None

    def is_absent(self, key: str, now: float) -> bool:
        """Whether there was no file ``key`` when it was last looked up, a short time ago."""
        return now < self._absent.get(key, 0.0)

    def fetch(
        self, target: RequestTarget, waiter: Waiter, key: str | None = None, folder: SiteFolder | None = None
    ) -> None:
        """Read ``target`` in a thread; ``waiter`` gets the result later, on the event loop.

        ``folder``: read it there instead of the root. Then ``key``, by default its path, tells the folder, too.
        """
        key = target.escaped_path if key is None else key
        now = time.perf_counter()
        if (read := self._reads.get(key)) is not None:
            is_fresh = read.current_root is self.root and now <= read.began + self._fresh_s
            (read.waiters if is_fresh else read.too_late).append(waiter)
            return
        folder = folder or self.root
        assert folder is not None
        self._start(key, _PendingRead(target, folder, self.root, now, [waiter]))

    def forget(self, key: str, waiter: Waiter) -> None:
        """Remove ``waiter``: it no longer waits."""
        if (read := self._reads.get(key)) is not None:
            for waiters in (read.waiters, read.too_late):
                with contextlib.suppress(ValueError):
                    waiters.remove(waiter)

    def invalidate(self, resource: Resource) -> None:
        """Drop ``resource``: its file has changed."""
        if self.resources.get(resource.key) is resource:
            self._drop(resource)

    def start_over(self, root: SiteFolder | None) -> None:
        """Drop all pages and serve ``root`` from now on."""
        self.root = root
        self.resources.clear()
        self._absent.clear()
        self.memory = 0

    def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _start(self, key: str, read: _PendingRead) -> None:
        self._reads[key] = read
        self.reads += 1
        work = partial(load, read.root, read.target, self._index, self._file_max, key)
        future = asyncio.get_running_loop().run_in_executor(self._readers, work)
        future.add_done_callback(partial(self._loaded, key, read))

    def _loaded(self, key: str, read: _PendingRead, future: "asyncio.Future[Resource | Moved]") -> None:
        result: Loaded
        try:
            result = future.result()
        except asyncio.CancelledError:
            result = OSError("the server is stopping")
        except NotServed as missing:
            result = missing
            if type(missing) is NotServed and read.current_root is self.root:
                if len(self._absent) >= ABSENT_MAX:
                    self._absent.clear()
                self._absent[key] = read.began + self._fresh_s
        except (KeepsChanging, OSError) as error:
            self.disk_errors += 1
            result = error
        except Exception as error:  # a bug: report it, and do not leave the requests waiting
            asyncio.get_running_loop().call_exception_handler({"message": f"reading {key}", "exception": error})
            result = OSError(f"reading {key} failed")
        if isinstance(result, Resource):
            # Fresh since the read began: the file may have changed while it was read.
            result.fresh_until = read.began + self._fresh_s
            if read.current_root is self.root:
                self._keep(result)
        del self._reads[key]
        if read.too_late:
            folder = self.root if read.root is read.current_root else read.root
            assert folder is not None
            self._start(key, _PendingRead(read.target, folder, self.root, time.perf_counter(), read.too_late))
        loop = asyncio.get_running_loop()
        for waiter in read.waiters:
            loop.call_soon(waiter, result)  # separate calls: a waiter that fails does not affect the others

    def _keep(self, resource: Resource) -> None:
        if (old := self.resources.get(resource.key)) is not None:
            self._drop(old)
        if resource.cost > self._memory_max:
            return
        self.resources[resource.key] = resource
        self.memory += resource.cost
        while self.memory > self._memory_max:
            oldest = next(iter(self.resources.values()))
            if oldest.recently_used and oldest is not resource:
                oldest.recently_used = False
                self.resources[oldest.key] = self.resources.pop(oldest.key)
            else:
                self._drop(oldest)
                self.evictions += 1

    def _drop(self, resource: Resource) -> None:
        del self.resources[resource.key]
        self.memory -= resource.cost


def status_of(failure: NotServed | KeepsChanging | OSError) -> tuple[int, str]:
    """Status and text of the response to a failed read."""
    match failure:
        case NotReadable():
            return 403, "The server has no permission to read this file."
        case NotServed():
            return 404, "There is no such page."
        case KeepsChanging():
            return 503, "The file is being written. Try again in a moment."
        case RootGone():
            return 503, "The folder of this site is missing."
        case OSError(errno=errno.EMFILE | errno.ENFILE | errno.ENOMEM):
            return 503, "The server is out of memory or file descriptors. Try again in a moment."
        case _:
            return 500, "The disk failed while the page was read."
