"""Writes to a store as fast as possible and reports each durable transaction.

``python -m tests.cluster.runtime.disk.store_writer DIRECTORY SEED``: transaction i of a seed is always the same, so a
test that kills this process knows what its disk must hold.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from cluster.durable import Appended, Boot, Epoch, Image, Labelled, Rebuilt, Record, Snapshotted, Truncated
from cluster.entries import pack_bodies
from cluster.names import Label, ProcessId, ViewId
from cluster.run_log import Run
from cluster.runtime.disk.store import Purpose, Store

ME, OTHER = ProcessId("a"), ProcessId("b")
VIEW = ViewId(1, "x")


def transaction(seed: int, i: int, image: Image) -> list[Record]:
    """The records that follow this image."""
    chance = random.Random(f"{seed} {i}")

    def run(seqno: int, origin: ProcessId) -> Run:
        bodies = [chance.randbytes(chance.randrange(300)) for _ in range(chance.randrange(1, 30))]
        return Run(VIEW, seqno, origin, pack_bodies(bodies))

    log = image.log
    own = run(100 * i, ME)
    records: list[Record] = [Boot(i), Labelled(own)]  # the boot number tells how far the disk got
    if chance.random() < 0.5:
        records.append(Appended(log.end, own))
    elif image.labelled:
        records.append(Appended(log.end, image.labelled[min(image.labelled)]))
    if chance.random() < 0.1:
        records.append(Snapshotted(log.end, (Label(VIEW, i, ME),), chance.randbytes(chance.randrange(400_000))))
        records.append(Truncated(log.end))
    elif chance.random() < 0.06:
        runs = (run(100 * i, OTHER),)
        records.append(Rebuilt(chance.randint(log.base, log.end), runs, ViewId(i, "y"), log.base, None))
    records.append(Epoch(i))
    return records


def main() -> None:
    seed = int(sys.argv[2])
    print(0, flush=True)  # from now on a disk exists
    store = Store.open(Path(sys.argv[1]), create_for=Purpose.JOINING, name="a", cluster_id="shop")
    image = store.load()
    i = image.boot
    while True:
        i += 1
        records = transaction(seed, i, image)
        store.write(records)
        for record in records:
            image.apply(record)
        print(i, flush=True)


if __name__ == "__main__":
    main()
