"""Part of ``./dev bench servers``: three nodes with skewed load share two servers, are partitioned, and come back.

Prints the largest deviation from the shares of slot time, use and queue of the servers, and by how many requests a
server exceeded its limit, with the longest time by more than one for each node: before the partition (from 5 s on), in
its first 10 s (also by the limit just before it, over both sides), and after it (from 4 s on).
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.shared_servers import NAMES, ROUND_S, SHARES, SharedServers

if TYPE_CHECKING:
    from tests.support.shared_servers import Judged

WORKERS, TIME_MS = 8, "40"  # two servers: 400 requests a second
WARM_S, CUT_S, BACK_S = 5.0, 10.0, 4.0
SHARES_OFF, USE, QUEUE = 4.0, 0.95, 2.0  # the queue of each server


def compare(client: Path, runs: int, seconds: float, out: Path) -> int:
    found = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            found.append(run(Path(folder), client, seconds))
        for part, row in found[-1].items():
            marks = {
                "off": "!" if row["off"] > SHARES_OFF and part != "partitioned" else "",
                "use": "!" if row["use"] < USE and part != "partitioned" else "",
                "queue": "!" if row["queue"] > QUEUE else "",
                "above": "!" if row["above_s"] > ROUND_S else "",
            }
            print(
                f"{part:>12}: off {row['off']:.1f}{marks['off']}, use {row['use']:.3f}{marks['use']}, queue "
                f"{row['queue']:.2f}{marks['queue']}, above the limit at most {row['above']}, by more than one for each"
                f" node for {row['above_s']:.2f} s{marks['above']}, failed {row['failed']}",
                flush=True,
            )
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def run(folder: Path, client: Path, seconds: float) -> dict[str, dict[str, Any]]:
    lasts_s = WARM_S + seconds + CUT_S + BACK_S + seconds
    with SharedServers(folder, client, workers=WORKERS, time_ms=TIME_MS, seconds=lasts_s + 60) as servers:
        began_s = time.time()
        time.sleep(WARM_S + seconds)
        cut_s = servers.part(NAMES[:2], NAMES[2:])
        time.sleep(CUT_S)
        servers.network.heal()
        healed_s = time.time()
        time.sleep(BACK_S + seconds)
        ended_s = time.time()
        judged = servers.end()
    return {
        "together": row(judged, began_s + WARM_S, cut_s),
        "partitioned": row(judged, cut_s, cut_s + CUT_S, known_s=cut_s),
        "healed": row(judged, healed_s + BACK_S, ended_s),
    }


def row(judged: Judged, from_s: float, to_s: float, known_s: float | None = None) -> dict[str, Any]:
    means, shares = judged.means(from_s, to_s), judged.shares(from_s, to_s)
    excess = judged.excess(from_s, to_s, known_s).values()
    return {
        "off": max(abs(shares[name] - share) for name, share in SHARES.items()),
        "use": means.use,
        "queue": means.queue / len(excess),
        "above": max(one.most for one in excess),
        "above_s": max(one.longest_s for one in excess),
        "failed": judged.failed,
    }
