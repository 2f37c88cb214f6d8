"""Starts and stops the child processes of an experiment, each by its own process id."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
_TOP = Path(__file__).resolve().parent.parent.parent
_END_S = 15.0


class CannotRun(Exception):
    """An experiment could not run; the text says why."""


def environment() -> dict[str, str]:
    """Our environment without settings for nodes, and with our source tree in PYTHONPATH."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("QOSWEB_", "NOTIFY_", "WATCHDOG_"))}
    kept["PYTHONPATH"] = os.pathsep.join(part for part in (str(_TOP), os.environ.get("PYTHONPATH", "")) if part)
    return kept


def start(command: Sequence[str], to: Path) -> subprocess.Popen[bytes]:
    """Start a command with its output in the file ``to``."""
    with to.open("wb") as file:
        return subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=environment()
        )


def end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Terminate a process, and kill it if it does not end."""
    if process.poll() is None:
        process.terminate()
        await_end(process)


def await_end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Wait for a process that was asked to end. Asked a second time, a node would abort its responses."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], T | None], what: str, within_s: float) -> T:
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise CannotRun(f"timeout after {within_s:g} s, waiting for {what}")
        time.sleep(0.02)
    return value


def last_line(file: Path) -> str:
    lines = file.read_text("utf-8", "replace").strip().splitlines() if file.exists() else []
    return lines[-1] if lines else "no output"
