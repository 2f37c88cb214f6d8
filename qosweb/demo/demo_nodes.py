"""Starts the nodes of the demo as processes, waits until they form a cluster, and stops them gracefully.

Each node has its own process group, so that Ctrl-C reaches only the demo, which then stops the nodes.
Below: `node_process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from cluster import make_key_file
from qosweb.demo.ports import HOST, Ports
from qosweb.errors import UsageError
from qosweb.settings import ENV_PREFIX
from qosweb.tools.admin_client import AdminClient, AdminError

if TYPE_CHECKING:
    from pathlib import Path

CAPACITY = "1MB/s"
GRACE_S = 1
TOGETHER_S = 60.0
END_S = 10.0
POLL_EVERY_S = 0.1


class DemoNode:
    """A node: its process, its addresses, and a client for its admin port."""

    def __init__(self, name: str, ports: Ports, logs: Path) -> None:
        self.name = name
        self.ports = ports
        self.url = f"http://{HOST}:{ports.public}"
        self.admin = f"{HOST}:{ports.admin}"
        self.group = f"{HOST}:{ports.group}"
        self.access_log = logs / f"{name}.log"
        self.messages = logs / f"{name}.err"
        self.client = AdminClient(self.admin)
        self.process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def code(self) -> int | None:
        """The exit code if the process has ended; negative for a signal."""
        return None if self.process is None else self.process.returncode

    def last_message(self) -> str:
        """The last line that the node wrote."""
        with contextlib.suppress(OSError):
            lines = self.messages.read_text("utf-8", "replace").splitlines()
            if lines:
                return lines[-1].removeprefix("qosweb: ").removeprefix("error: ")
        return "it wrote no message"


class DemoNodes:
    """An async context manager that never leaves a process behind. The nodes write into the folder `logs`."""

    def __init__(self, site: Path, spec: Path, folder: Path, ports: list[Ports], logs: Path) -> None:
        self.folder = folder
        self.logs = logs
        self.key_file = folder / "cluster.key"
        self.members = [DemoNode(f"n{number}", one, logs) for number, one in enumerate(ports, 1)]
        self.site = site
        self._spec = spec

    async def __aenter__(self) -> DemoNodes:
        make_key_file(self.key_file)
        try:
            for member in self.members:
                await self._start(member)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def options(self, name: str, *addresses: str) -> list[str]:
        """The options of ``qosweb serve``, without ``--bootstrap`` or ``--join``."""
        return [
            "--root", str(self.site), "--spec", str(self._spec), "--name", name, "--capacity", CAPACITY,
            "--key-file", str(self.key_file), *addresses,
        ]  # fmt: skip

    async def _start(self, member: DemoNode) -> None:
        first = self.members[0]
        way_in = ["--bootstrap"] if member is first else ["--join", first.group]
        addresses = [
            "--listen", f"{HOST}:{member.ports.public}", "--admin", member.admin, "--group", member.group,
            "--access-log", str(member.access_log), "--grace", f"{GRACE_S}s",
        ]  # fmt: skip
        with member.messages.open("wb") as messages:
            member.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "qosweb.demo.node_process", *self.options(member.name, *addresses, *way_in),
                stdin=asyncio.subprocess.PIPE, stdout=messages, stderr=messages, env=_environment(), process_group=0,
            )  # fmt: skip

    async def wait_until_joined(self) -> None:
        """Wait until every node sees all nodes. Raises UsageError if one ends before, or after a timeout."""
        try:
            async with asyncio.timeout(TOGETHER_S):
                for member in self.members:
                    await self._wait_until_it_sees_all(member)
        except TimeoutError:
            raise UsageError(f"the nodes did not form a cluster within {TOGETHER_S:g} s") from None

    async def _wait_until_it_sees_all(self, member: DemoNode) -> None:
        while True:
            if member.code is not None:
                raise UsageError(f"node {member.name} ended at its start: {member.last_message()}")
            found = await fetch_status(member)
            nodes: dict[str, Any] = {} if found is None else found.get("nodes", {})
            if len(nodes) == len(self.members) and all(node["capacity_bytes_per_s"] for node in nodes.values()):
                return
            await asyncio.sleep(POLL_EVERY_S)

    def kill(self) -> None:
        """End all nodes at once."""
        for member in self.members:
            if member.process is not None and member.code is None:
                send(member.process, signal.SIGKILL)

    async def stop(self) -> None:
        """Stop all nodes gracefully; kill them after a timeout."""
        running = [member.process for member in self.members if member.process is not None and member.code is None]
        for process in running:
            send(process, signal.SIGCONT)  # it may have been stopped
            send(process, signal.SIGTERM)
        waits = [asyncio.create_task(process.wait()) for process in running]
        if waits:
            _, late = await asyncio.wait(waits, timeout=END_S)
            if late:
                self.kill()
                await asyncio.wait(late, timeout=END_S)


async def fetch_status(member: DemoNode) -> dict[str, Any] | None:
    """The status of a node; None if it does not respond."""
    try:
        return await member.client.status()
    except AdminError:
        return None


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal, unless the process has ended.

    Not with `send_signal`: that may collect the exit code, which the thread of asyncio waits for.
    """
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            os.kill(process.pid, number)


def _environment() -> dict[str, str]:
    """The environment of this process, without variables that configure a node."""
    unwanted = (ENV_PREFIX, "NOTIFY_", "WATCHDOG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
