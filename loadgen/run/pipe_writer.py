"""Writes a worker's messages to its pipe in a thread, so that a slow reader delays no request."""

from __future__ import annotations

import os
import queue
import threading

from loadgen.run.messages import FRAME

_FRAMES_MAX = 2000  # then the worker blocks, and its lateness shows it


class PipeWriter:
    """Writes frames to a file descriptor, in order."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._frames: queue.Queue[bytes | None] = queue.Queue(_FRAMES_MAX)
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def put(self, kind: bytes, content: bytes = b"") -> None:
        self._frames.put(FRAME.pack(kind, len(content)) + content)

    def close(self) -> None:
        """Returns when everything is written."""
        self._frames.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (frame := self._frames.get()) is not None:
            rest = memoryview(frame)
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except BrokenPipeError:
                os._exit(1)  # the run is gone
