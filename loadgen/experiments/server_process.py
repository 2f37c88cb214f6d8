"""Starts a simulated application server (`simulated_server`) and sends it commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from loadgen.experiments import simulated_server
from loadgen.experiments.processes import CannotRun, await_end, environment

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self


class ServerProcess:
    """Runs the server while the context lasts. Its records are complete after that."""

    def __init__(
        self,
        workers: int,
        times: Sequence[str],
        records: Path,
        *,
        host: str = "127.0.0.1",
        at: Sequence[str] = (),
        port: int = 0,
    ) -> None:
        """`times` as on the command line of the server; `at` is put before the command, to run it elsewhere."""
        self.name = "application"
        self.records = self.log = records
        words = [word for text in times for word in ("--time", text)]
        words += ["--workers", str(workers), "--records", str(records), "--host", host, "--port", str(port)]
        self.process = subprocess.Popen(
            [*at, sys.executable, "-m", simulated_server.__name__, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            raise CannotRun("the simulated application server did not start")
        self.port = int(line)
        self.url = f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Let the server write its records and exit."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            await_end(self.process)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
