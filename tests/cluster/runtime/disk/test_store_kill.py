"""kill -9 of a writing process, repeatedly on one disk: acknowledged transactions survive, and none is partial."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cluster.durable import Image
from cluster.runtime.commands.inspection import inspect
from tests.cluster.runtime.disk.images import contents
from tests.cluster.runtime.disk.store_writer import transaction
from tests.cluster.runtime.disk.test_store import open_store
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import IO

SEED = 11
LIVES = 12
OPENINGS = 8


@contextmanager
def scribe(directory: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """The writing process and its output. Killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.runtime.disk.store_writer", str(directory), str(SEED)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        if not process.stdout.readline():
            process.wait()
            raise AssertionError(process.stderr.read())
        try:
            yield process, process.stdout
        finally:
            process.kill()


def life(directory: Path, seconds: float, *, first: bool = True) -> int:
    """Run until killed, so many seconds after its first transaction or its start. Returns the last acknowledged one."""
    with scribe(directory) as (process, said):
        text = said.readline() if first else "0\n"
        time.sleep(seconds)  # an arbitrary moment, which is the point
        process.kill()
        text += said.read()
    return int(text.rpartition("\n")[0].rpartition("\n")[2])


def test_acknowledged_transactions_survive_kill_9(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    image = Image()
    done = 0
    for _ in range(LIVES):
        acknowledged = life(tmp_path, chance.random() * 0.2)
        store = open_store(tmp_path)
        found = store.load()
        store.close()
        assert acknowledged <= found.boot <= acknowledged + 1  # at most the transaction in progress more
        for i in range(done + 1, found.boot + 1):
            for record in transaction(SEED, i, image):
                image.apply(record)
        done = found.boot
        assert contents(found) == contents(image)
    assert done >= LIVES


def test_a_process_killed_while_its_disk_is_made_or_opened(tmp_path: Path) -> None:
    """The disk exists and is intact, or does not exist; the next process creates it or resumes."""
    chance = random.Random(SEED)
    for i in range(OPENINGS):
        directory = tmp_path / str(i // 2)
        life(directory, chance.random() * 0.05, first=False)
        open_store(directory).close()


def test_inspect_works_while_a_process_writes(tmp_path: Path) -> None:
    """Each inspection sees one consistent state, and later ones see later states."""
    with scribe(tmp_path) as (process, said):
        said.readline()
        seen: list[int] = []

        def look() -> bool:
            holding = inspect(tmp_path)
            assert holding.in_use
            assert holding.boot == holding.epoch  # the first and the last record of a transaction
            seen.append(holding.boot)
            return len(seen) >= 20 and seen[-1] > seen[0]

        wait_for(look, "later moments")
        assert process.poll() is None
    assert seen == sorted(seen)
