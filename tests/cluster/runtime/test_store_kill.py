"""kill -9 of a process that writes, again and again on one disk: what it acknowledged is there, and nothing in part."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from cluster.durable import Image
from tests.cluster.runtime.images import contents
from tests.cluster.runtime.scribe import transaction
from tests.cluster.runtime.test_store import open_store

if TYPE_CHECKING:
    from pathlib import Path

SEED = 11
LIVES = 12


def life(directory: Path, seconds: float) -> int:
    """One life of the writer, killed so many seconds after its first transaction. The last one that it acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.runtime.scribe", str(directory), str(SEED)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        first = process.stdout.readline()
        if not first:
            process.wait()
            raise AssertionError(process.stderr.read())
        time.sleep(seconds)  # a moment like any other, which is the point
        process.kill()
        rest = process.stdout.read()
    return int((first + rest).rpartition("\n")[0].rpartition("\n")[2])


def test_whatever_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    image = Image()
    done = under_way = 0
    for _ in range(LIVES):
        acknowledged = life(tmp_path, chance.random() * 0.2)
        store = open_store(tmp_path)
        found = store.load()
        store.close()
        assert acknowledged <= found.boot <= acknowledged + 1  # perhaps with the one under way, never with more
        under_way += found.boot - acknowledged
        for i in range(done + 1, found.boot + 1):
            for record in transaction(SEED, i, image):
                image.apply(record)
        done = found.boot
        assert contents(found) == contents(image)
    assert done > LIVES
