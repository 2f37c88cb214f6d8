"""Node processes, started on free ports and stopped by their process id."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from signal import Signals
from typing import TYPE_CHECKING, Any

from tests.support.raw import RawConnection, Reply
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_SERVING = re.compile(r"serving .*? on (https?)://(?:\[[^]]+\]|[^:]+):(\d+)/(?:, admin on http://[^:]+:(\d+)/)?")

COMMAND = [sys.executable, "-m", "qosweb"]


def version(*changes: tuple[str, str, object]) -> list[str]:
    """The command of a version in which module attributes have other values: numbers or expressions."""
    changed = "".join(f"import {module} as m; m.{name} = {value}; " for module, name, value in changes)
    return [sys.executable, "-c", f"import sys; {changed}from qosweb.cli import main; sys.exit(main())"]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a node: this process's, without variables that would configure it."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("QOSWEB_", "NOTIFY_", "WATCHDOG_"))
    }
    return {**kept, **(extra or {})}


class RunningNode:
    """``qosweb serve`` on a folder. Options as on the command line: ``RunningNode(root, tmp, "--grace", "1s")``."""

    def __init__(
        self,
        root: Path | None,
        scratch: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
    ) -> None:
        """``before`` is put before the command, which may be that of another version."""
        self.access_log = scratch / "access.log"
        self.stderr: list[str] = []
        defaults = [
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--name",
            "n1",
            "--access-log",
            str(self.access_log),
        ]
        given = set(options)
        for at in range(0, len(defaults), 2):
            if defaults[at] not in given:
                options = (*options, defaults[at], defaults[at + 1])
        self.process = subprocess.Popen(
            [*before, *command, "serve", *(() if root is None else ("--root", str(root))), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(env),
            text=True,
        )
        self._readers = [threading.Thread(target=self._collect_stderr, daemon=True)]
        self._readers[0].start()
        match = wait_for(self._announcement, "the node to announce its ports", 60)
        self.scheme, self.port = match[1], int(match[2])
        self.admin_port = int(match[3]) if match[3] else 0

    def __enter__(self) -> RunningNode:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(Signals.SIGKILL)
        self._readers[0].join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def connect(self, *, timeout_s: float = 60.0, tls: ssl.SSLContext | None = None) -> RawConnection:
        return RawConnection(self.port, timeout_s=timeout_s, tls=tls)

    def get(self, target: str, *fields: str, method: str = "GET") -> Reply:
        """Send one request on its own connection."""
        with self.connect() as connection:
            return connection.get(target, *fields, method=method)

    def answer(self, target: bytes) -> bytes:
        """The complete response to a target of arbitrary bytes."""
        with self.connect() as connection:
            connection.send(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.read_to_end()

    def readiness(self) -> str:
        """The text of /readyz, for any status."""
        try:
            return self.admin("/readyz")
        except urllib.error.HTTPError as error:
            with error:
                text: str = error.read().decode()
                return text

    def admin(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=60) as reply:
            text: str = reply.read().decode()
            return text

    def metric(self, name: str, **labels: str) -> float:
        """The value of one sample of /metrics; 0 if there is none."""
        wanted = "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}" if labels else ""
        for line in self.admin("/metrics").splitlines():
            if line.startswith(f"{name}{wanted} "):
                return float(line.rpartition(" ")[2])
        return 0.0

    def kill(self, number: Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: Signals = Signals.SIGTERM, timeout_s: float = 60.0) -> int:
        """Stop the node and return its exit code."""
        self.kill(number)
        return self.process.wait(timeout_s)

    def log(self) -> list[dict[str, Any]]:
        """The requests in the access log so far; every line must be complete JSON."""
        return [line for line in self.log_lines() if "event" not in line]

    def log_lines(self) -> list[dict[str, Any]]:
        """The same with the events. While the node runs, the last line may be in the middle of its write."""
        is_over = self.process.poll() is not None
        text = self.access_log.read_text()
        return [json.loads(line) for line in (text if is_over else text[: text.rfind("\n") + 1]).splitlines()]

    def _collect_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr.append(line.rstrip("\n"))

    def _announcement(self) -> re.Match[str] | None:
        for line in self.stderr:
            if match := _SERVING.search(line):
                return match
        assert self.process.poll() is None, f"the node ended with {self.process.returncode}: {self.stderr}"
        return None


def run_command(
    *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a ``qosweb`` command that ends by itself."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=environment(env), timeout=timeout_s, check=False
    )
