"""Runs a third-party proxy as a process: writes its configuration, starts it without privileges, stops it by its id."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.nodes import free_port
from loadgen.experiments.processes import CannotRun, end, last_line, start, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from loadgen.experiments.workbench import LoadTarget

_START_S = 30.0


class ProxyTask(NamedTuple):
    """The server behind a proxy, and the guarantees to approximate. All pages have the same size."""

    upstream: LoadTarget
    folder: Path
    parts: Mapping[str, float]  # fractions of the pipe by class; they add up to 1
    capacity_per_s: float  # requests per second that the pipe can carry
    wait_s: float  # how long a request may wait for its turn

    @property
    def host(self) -> str:
        return self.upstream.url.removeprefix("http://")

    def rates(self) -> dict[str, float]:
        """Requests per second by class."""
        return {name: part * self.capacity_per_s for name, part in self.parts.items()}

    def places(self, together: int) -> dict[str, int]:
        """Divide ``together`` concurrent requests among the classes; each class has at least one."""
        return {name: max(1, round(part * together)) for name, part in self.parts.items()}


class Proxy:
    """A load target; its log is that of the node behind it."""

    def __init__(
        self, name: str, task: ProxyTask, config: Callable[[int], str], command: Callable[[Path], Sequence[str]]
    ) -> None:
        """``config`` returns the configuration for a port; ``command`` the command for a configuration file."""
        self.name = name
        self.log = task.upstream.log
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        task.folder.mkdir(exist_ok=True)
        file = task.folder / f"{name}.conf"
        file.write_text(config(port), "utf-8")
        said = task.folder / f"{name}.txt"
        words = command(file)
        self._process = start(words, said)

        def listens() -> bool:
            if self._process.poll() is not None:
                raise CannotRun(f"{words[0]} exited unexpectedly: {last_line(said)}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            wait_for(lambda: listens() or None, f"{words[0]} to listen", _START_S)
        except BaseException:
            end(self._process)
            raise

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
