"""``./dev bench servers``: guarantees for an application server whose capacity nobody has set, over real processes.

A node with a specification of shares, and nothing else, stands in front of a simulated application server (workers
that sleep, with a queue of their own). A client in C (`processor_client.c`) sends an open loop at 2 times what the
server can do, or a closed loop with connections against the shares. From the access log: the largest deviation from
the shares of slot time, in points, and the 99 % quantile of the time that served requests waited at the node. From the
server's own records: the use of the workers and the mean queue inside. Each over the time from 5 s on; while half of
the workers are gone, from 3 s on; after they have returned, from 10 s on; with the time until use and queue keep the
goals. Last, the work done over that with the best limit by hand (``slots``) in the same run. A `!` marks a goal
missed. With ``--cluster``, another measurement: see `servers_in_a_cluster`.
Servers are ``WORKERSxTIME``, with times in milliseconds as in `loadgen.experiments.simulated_server`, and for two
classes also ``WORKERSxTIME/TIME``.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from loadgen.experiments.server_process import ServerProcess
from loadgen.experiments.simulated_server import DrawnTime
from tests.bench import servers_in_a_cluster
from tests.bench.calm import stolen_s
from tests.support.nodes import RunningNode
from tests.support.server_records import ServerRecords
from tests.support.shared_servers import compile_client

SERVERS = "4x5,8x20,32x50,8x20~1,32x50~1,8x2|200,4x200/2"
NAMES = "abcdefgh"
LIFETIME_MS = 1000
WARM_S, HALVED_S, BACK_S = 5.0, 3.0, 10.0
OVERLOAD = 2.0
OPEN_CONNECTIONS = 1024
SHARES_OFF, QUEUE = 4.0, 2.0
FEW = 8  # workers: with noisy times fewer samples than it takes
LOG = ("--access-log-rotate", "256MB", "--access-log-keep", "1")
ONE_CLIENT = (
    "--max-connections-per-client", "8000", "--max-connections", "8000", "--client-share", "100%",
    "--idle-timeout", "600s", "--header-timeout", "600s",
)  # fmt: skip  # the load comes from one address, and some of its connections wait long for their first request


class Setting(NamedTuple):
    """One server under one load."""

    server: str
    loop: str
    shares: tuple[int, ...]

    @property
    def workers(self) -> int:
        return int(self.server.partition("x")[0])

    @property
    def times(self) -> list[DrawnTime]:
        """By class."""
        given = self.server.partition("x")[2].split("/")
        return [DrawnTime(given[min(at, len(given) - 1)]) for at in range(len(self.shares))]

    @property
    def server_times(self) -> list[str]:
        given = self.server.partition("x")[2].split("/")
        return [f"{NAMES[at]}={given[min(at, len(given) - 1)]}" for at in range(len(self.shares))]

    @property
    def is_noisy(self) -> bool:
        return any(one.sigma or len(one.choices) > 1 for one in self.times)

    @property
    def use_goal(self) -> float:
        return 0.9 if self.is_noisy and self.workers <= FEW else 0.95

    def load(self) -> list[str]:
        """The classes of the client. The class with the largest share has the fewest requests for it."""
        first = 1.25 * self.shares[0] / 100
        parts = [first] + [(OVERLOAD - first) / (len(self.shares) - 1)] * (len(self.shares) - 1)
        found = []
        for at, (share, part, drawn) in enumerate(zip(self.shares, parts, self.times, strict=True)):
            if self.loop == "open":
                found.append(f"/{NAMES[at]}/page:{part * self.workers / drawn.mean_s:.1f}:{OPEN_CONNECTIONS}")
            else:
                count = (2 * math.ceil(self.workers * share / 100) + 2) * (1 + 3 * at)
                found.append(f"/{NAMES[at]}/page:0:{count}")
        return found

    def spec(self) -> str:
        rules = "".join(f"</{NAMES[at]}>.server_resource = {share}%\n" for at, share in enumerate(self.shares))
        return f"set lifetime = {LIFETIME_MS}ms\n{rules}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench servers", description=__doc__)
    parser.add_argument("--servers", default=SERVERS, help=f"({SERVERS})")
    parser.add_argument("--loops", default="open,closed", help="(open,closed)")
    parser.add_argument("--shares", default="60:40,70:20:10", help="of the classes, in per cent (60:40,70:20:10)")
    parser.add_argument("--seconds", type=float, default=7.0, help="of each measured part (7)")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; medians are printed (3)")
    parser.add_argument("--no-changes", action="store_true", help="the workers stay as they are")
    parser.add_argument("--no-fixed", action="store_true", help="without limits by hand")
    parser.add_argument("--cluster", action="store_true", help="three nodes share two servers, and are partitioned")
    parser.add_argument("--out", type=Path, default=Path("bench-results/servers.json"))
    options = parser.parse_args(arguments)
    if shutil.which("gcc") is None:
        raise SystemExit("bench: needs gcc for its client (apt-get install gcc libc6-dev)")
    settings = [
        Setting(server, loop, tuple(map(int, shares.split(":"))))
        for server in options.servers.split(",")
        for loop in options.loops.split(",")
        for shares in options.shares.split(",")
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        client = compile_client(Path(folder))
        if options.cluster:
            return servers_in_a_cluster.compare(client, options.runs, options.seconds, options.out)
        missed = 0
        for setting in settings:
            if setting.server.count("/") >= len(setting.shares):
                raise SystemExit(f"bench: {setting.server} has more times than classes")
            runs = [measure(client, setting, options) for _ in range(options.runs)]
            found.append({"setting": setting._asdict(), "runs": runs})
            missed += report(setting, runs)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n")
    print(f"{missed} goals missed; written to {options.out}")
    return 0


def measure(client: Path, setting: Setting, options: argparse.Namespace) -> dict[str, Any]:
    stolen = stolen_s()
    result: dict[str, Any] = {"found": run(client, setting, options.seconds, changes=not options.no_changes)}
    if not options.no_fixed:
        result["fixed"] = {
            slots: run(client, setting, options.seconds, slots=slots)["steady"]["slots"]
            for slots in (setting.workers, setting.workers + 1, setting.workers + 2)
        }
    result["stolen_s"] = stolen_s() - stolen
    return result


def run(
    client: Path, setting: Setting, seconds: float, *, slots: int | None = None, changes: bool = False
) -> dict[str, Any]:
    """One run of a node and a server, under load."""
    parts = {"steady": WARM_S}
    if changes:
        parts |= {"halved": HALVED_S, "back": BACK_S}
    lasts_s = sum(settles + seconds for settles in parts.values()) + LIFETIME_MS / 1000  # no judged request is cut off
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        scratch = Path(folder)
        (scratch / "shop.webqos").write_text(setting.spec())
        server = stack.enter_context(ServerProcess(setting.workers, setting.server_times, scratch / "records"))
        upstream = ["--upstream", server.url]
        if slots is not None:
            config = scratch / "qosweb.toml"
            config.write_text(f"[[upstream]]\nurl = '{server.url}'\nslots = {slots}\n")
            upstream = ["--config", str(config)]
        spec = ("--spec", str(scratch / "shop.webqos"))
        node = stack.enter_context(RunningNode(None, scratch, *upstream, *spec, *LOG, *ONE_CLIENT))
        words = [node.url.rpartition(":")[2], str(lasts_s), str(WARM_S), str(LIFETIME_MS), *setting.load()]
        began = time.time()
        load = subprocess.Popen([str(client), *words], stdout=subprocess.PIPE, text=True)
        stack.callback(load.kill)
        starts = {"steady": began}
        for part, workers in (("halved", setting.workers // 2), ("back", setting.workers)):
            if part in parts:
                before = list(parts)[list(parts).index(part) - 1]
                starts[part] = starts[before] + parts[before] + seconds
                time.sleep(max(0.0, starts[part] - time.time()))
                server.tell(f"workers {workers}")
        told, _ = load.communicate(timeout=lasts_s + 60)
        if load.returncode:
            raise SystemExit(f"bench: the client ended with {load.returncode}; {node.stderr[-3:]}")
        node.stop()
        server.end()
        records, log = ServerRecords([server.records]), node.log()
    result: dict[str, Any] = {"client": [json.loads(line) for line in told.splitlines()]}
    for part, settles_s in parts.items():
        from_s = starts[part] + settles_s
        result[part] = judge(setting, records, log, from_s, from_s + seconds)
        result[part]["settled_s"] = records.settled_s(starts[part], from_s + seconds, setting.use_goal, QUEUE)
    return result


def judge(
    setting: Setting, records: ServerRecords, log: list[dict[str, Any]], from_s: float, to_s: float
) -> dict[str, Any]:
    means = records.means(from_s, to_s)
    inside = [line for line in log if from_s <= line["ts"] < to_s]
    waits = sorted(line["queue_ms"] for line in inside if line["status"] == 200)
    spent = slot_ms(log, from_s, to_s)
    total = max(1e-9, sum(spent.values()))
    off = {
        NAMES[at]: round(100 * spent.get(f"/{NAMES[at]}", 0.0) / total - share, 2)
        for at, share in enumerate(setting.shares)
    }
    return {
        "off": max(map(abs, off.values())),
        "off_by_class": off,
        "shares_of_the_workers": means.shares,
        "use": means.use,
        "queue": means.queue,
        "slots": means.slots,
        "wait_p99_ms": waits[int(0.99 * (len(waits) - 1))] if waits else None,
        "served": len(waits),
        "failed": sum(line["status"] not in (200, 503) for line in inside),
    }


def slot_ms(log: list[dict[str, Any]], from_s: float, to_s: float) -> dict[str, float]:
    """The slot time that each class held between two times."""
    found: dict[str, float] = {}
    for line in log:
        if line.get("work"):
            begin = line["ts"] + line["queue_ms"] / 1e3
            held = min(begin + line["work"] / 1e3, to_s) - max(begin, from_s)
            found[line["class"]] = found.get(line["class"], 0.0) + 1e3 * max(0.0, held)
    return found


def report(setting: Setting, runs: list[dict[str, Any]]) -> int:
    """Print the medians of a setting. Returns how many goals they miss."""
    missed = 0

    def shown(value: float, goal: float, form: str, *, at_least: bool = False) -> str:
        nonlocal missed
        misses = value < goal if at_least else not value <= goal
        missed += misses
        return f"{value:{form}}{'!' if misses else ''}"

    shares = ":".join(map(str, setting.shares))
    text = f"{setting.server:>9} {setting.loop:>6} {shares:>8}"
    for part, limit_s in (("steady", math.inf), ("halved", HALVED_S), ("back", BACK_S)):
        if part not in runs[0]["found"]:
            continue
        rows = [one["found"][part] for one in runs]

        def median(key: str, rows: list[dict[str, Any]] = rows) -> float:
            return statistics.median(math.inf if row[key] is None else row[key] for row in rows)

        text += (
            f" | {part}: off {shown(median('off'), SHARES_OFF, '.1f')}, "
            f"use {shown(median('use'), setting.use_goal, '.3f', at_least=True)}, "
            f"queue {shown(median('queue'), QUEUE, '.2f')}, "
            f"wait {shown(median('wait_p99_ms'), LIFETIME_MS, '.0f')} ms"
        )
        if part != "steady":
            text += f", settled {shown(median('settled_s'), limit_s, '.1f')} s"
        failed = sum(row["failed"] for row in rows)
        if failed:
            missed += 1
            text += f", failed {failed}!"
    if "fixed" in runs[0]:
        goal = 0.9 if setting.use_goal < 0.95 else 0.95
        ratio = statistics.median(one["found"]["steady"]["slots"] / max(one["fixed"].values()) for one in runs)
        text += f" | of the best {shown(ratio, goal, '.3f', at_least=True)}"
    print(text, flush=True)
    return missed
