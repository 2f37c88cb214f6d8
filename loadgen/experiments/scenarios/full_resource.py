"""A node whose processor or outgoing line is full, without a configured capacity; nginx serves the same files.

Clients ask in a closed loop (`closed_loop`), with connections that stand against the guarantee of /a, or for it. The
node has to notice the shortage and order its responses; nginx divides by connections.

``processor``: the node and its clients have a processor each.
``line``: the node's network interface is shaped to LINE_MBIT by the kernel (``tc``), in a network namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from loadgen.experiments.closed_loop import SLOT_S, ClassResult
from loadgen.experiments.evidence import SERVED, log_lines
from loadgen.experiments.findings import Bars, Check, ExperimentFindings, Stack, Table, skip
from loadgen.experiments.judging import WARM_UP_S
from loadgen.experiments.layout import SIDE_BY_SIDE, Layout
from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from loadgen.experiments.nodes import HERE, NodePlace, NodeProcesses, free_port
from loadgen.experiments.processes import CannotRun, end, environment, start
from loadgen.experiments.site import make_site, page_of
from loadgen.experiments.workbench import KB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.experiments.workbench import Workbench

OURS, NGINX = "qosweb", "nginx"
SIZE = 64 * KB  # on the line
PROCESSOR_SIZE = 256 * KB  # large, so that the server needs more processor time than the clients
POINTS, QUICK_POINTS = 4.0, 8.0
LINE_MBIT = 40
LINE_BUFFER_S = 0.08
LINE_USED, QUICK_LINE_USED = 90.0, 80.0  # per cent
LINE_SETTLES_S = 3.0
ON_THE_WIRE = 1514 / 1448  # of a full packet, with its headers
HEAD_BYTES = 330  # of a response, about
PORT = 8080
LAST_LINES_S = 5.0
ASLEEP_MAX = (
    0.2  # also before and after the load; in a processor that is not full, nothing waits, and nothing is ordered
)

_NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log {folder}/nginx-access.log; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
    fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    sendfile on; tcp_nodelay on; keepalive_requests 1000000000; open_file_cache max=100;
    server {{ listen {host}:{port} backlog=2048; root {root}; }}
}}
"""


class FullResourceMeasurement(NamedTuple):
    """Responses of one server to its clients, with these numbers of connections for /a and /b."""

    server: str
    connections: str
    classes: list[ClassResult]
    logged: int  # served, by the access log; 0: the server has no such log
    asleep: float = 0.0  # part of the time in which the server's main thread slept

    def share(self, begin_s: float) -> float:
        """Of /a, in per cent of the bytes since then."""
        a, b = (sum(one.sizes[round(begin_s / SLOT_S) :]) for one in self.classes)
        return 100 * a / max(1, a + b)

    def bps(self, begin_s: float) -> float:
        return sum(
            sum(one.sizes[(at := round(begin_s / SLOT_S)) :]) / max(SLOT_S, SLOT_S * (len(one.sizes) - at))
            for one in self.classes
        )


class FullResourceExperiment(NamedTuple):
    name: str
    title: str
    guaranteed: float  # to /a, in per cent
    connections: tuple[str, ...]  # of /a and /b
    is_line: bool
    source: str = "beyond the paper"
    printed: str = ""
    layout: Layout = SIDE_BY_SIDE

    @property
    def settles_s(self) -> float:
        return LINE_SETTLES_S if self.is_line else WARM_UP_S

    def criterion(self, *, quick: bool) -> str:
        text = (
            f"/a gets its guaranteed {self.guaranteed:g} % of the bytes within {QUICK_POINTS if quick else POINTS:g} "
            f"points from {self.settles_s:g} s on, whatever the connections of the classes, by clients and log; the "
            "node names the cause"
        )
        if self.is_line:
            text += f"; {QUICK_LINE_USED if quick else LINE_USED:g} % or more of the line are used"
        return text + ". nginx is measured, not judged."

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        if not self.is_line:
            return self._measure(bench, None)
        network = NamespaceNetwork([OURS, NGINX])
        try:
            with network:
                for name in (OURS, NGINX):
                    _shape(network, name)
                return self._measure(bench, network)
        except NamespacesUnavailable as error:
            return skip(f"it needs network namespaces and tc, which are not available here ({error})")

    def _measure(self, bench: Workbench, network: NamespaceNetwork | None) -> ExperimentFindings:
        seconds = bench.lasting(12.0, 6.0)
        size = SIZE if self.is_line else PROCESSOR_SIZE
        root = make_site(bench.scratch / "site", {"/a": size, "/b": size})
        root.chmod(0o755)
        found: list[FullResourceMeasurement] = []
        with ExitStack() as stack:
            options = ["--root", str(root), "--spec", str(bench.spec()), "--client-share", "100%"]
            options += ["--find-line", "yes"] if self.is_line else []
            nodes = stack.enter_context(NodeProcesses(bench.folder, options, cluster=False))
            place = HERE
            if network is not None:
                place = NodePlace(network.address(OURS), tuple(network.at(OURS)), partial(network.within, OURS))
            node = nodes.begin(OURS, place)
            if network is None:
                _pin(node.process.pid, 0)
            host, _, port = node.wait().url.removeprefix("http://").rpartition(":")
            servers = [(OURS, host, int(port))]
            if has_nginx := shutil.which("nginx") is not None:
                servers.append((NGINX, *_start_nginx(bench, network, root, stack)))
            causes: set[str] = set()
            for connections in self.connections:
                for name, host, port_number in servers:
                    bench.say(f"{name}, {connections} connections for {seconds:g} s")
                    before = _logged(node.log) if name == OURS else 0
                    began, busy_s = time.monotonic(), _busy_s(node.process.pid)
                    classes = _load(network, host, port_number, seconds, connections)
                    asleep = 1 - (_busy_s(node.process.pid) - busy_s) / (time.monotonic() - began)
                    logged = 0
                    if name == OURS:
                        logged = _logged(node.log, before + sum(one.served for one in classes)) - before
                    found.append(FullResourceMeasurement(name, connections, classes, logged, asleep))
            causes = _causes(node.log)
        findings = judge(self, found, causes, quick=bench.size.quick)
        if not has_nginx:
            findings.notes.append("Not installed here, and so not compared: nginx.")
        return findings


def judge(
    one: FullResourceExperiment, found: Sequence[FullResourceMeasurement], causes: set[str], *, quick: bool
) -> ExperimentFindings:
    """`causes`: those that the events of the node's log name."""
    points = QUICK_POINTS if quick else POINTS
    least = QUICK_LINE_USED if quick else LINE_USED
    checks: list[Check] = []
    rows: list[list[str]] = []
    for measured in found:
        share, bps = measured.share(one.settles_s), measured.bps(one.settles_s)
        used = 100 * bps * ON_THE_WIRE * (1 + HEAD_BYTES / SIZE) / (LINE_MBIT * 125_000)
        rows.append([measured.connections, measured.server, f"{share:.1f}", f"{bps / 1e6:.1f}",
                     f"{used:.0f}" if one.is_line else ""])  # fmt: skip
        if measured.server != OURS:
            continue
        said = f"{measured.connections} connections"
        checks.append(Check(f"{said}: /a within {points:g} points of {one.guaranteed:g} %",
                            abs(share - one.guaranteed) <= points, f"{share:.1f} %"))  # fmt: skip
        checks.append(_agree(said, measured))
        if not one.is_line:
            text = f"{said}: the clients kept the node's processor full, {100 * ASLEEP_MAX:g} % of the time excepted"
            checks.append(Check(text, measured.asleep <= ASLEEP_MAX, f"{100 * measured.asleep:.0f} %"))
        if one.is_line:
            checks.append(Check(f"{said}: {least:g} % or more of the line are used", used >= least, f"{used:.1f} %"))
    cause = "line" if one.is_line else "processor"
    checks.append(Check(f"the events of the log name the cause: {cause}", cause in causes,
                        ", ".join(sorted(causes)) or "none"))  # fmt: skip
    head = ["connections of /a and /b", "server", "a, %", "MB/s", "line, %"]
    names = [f"{measured.server}, {measured.connections}" for measured in found]
    shares = [measured.share(one.settles_s) for measured in found]
    return ExperimentFindings(
        seen=_sentence(one, found),
        checks=checks,
        panels=[
            Bars(
                f"Bytes of /a and /b, by clients; the {cause} is full",
                "% of the bytes",
                names,
                [Stack("/a", shares, 0), Stack("/b", [100 - share for share in shares], 1)],
                [(one.guaranteed, "guaranteed to /a")],
            )
        ],
        tables=[Table("Shares with other numbers of connections", head, rows)],
        csv_head=["connections", "server", "a_percent", "mb_per_s", "line_percent"],
        csv_rows=rows,
    )


def _agree(said: str, measured: FullResourceMeasurement) -> Check:
    """The log has at most one response more for each connection: the one that the client did not wait for."""
    clients = sum(one.served for one in measured.classes)
    extra = measured.logged - clients
    most = sum(one.connections for one in measured.classes)
    others = sum(one.others for one in measured.classes)
    return Check(f"{said}: log and clients count the same responses, and none is denied",
                 0 <= extra <= most and not others,
                 f"clients {clients}, log {extra:+d}, under way at most {most}, denied {others}")  # fmt: skip


def _sentence(one: FullResourceExperiment, found: Sequence[FullResourceMeasurement]) -> str:
    parts = [
        f"{measured.connections}: {measured.share(one.settles_s):.0f} %"
        for measured in found
        if measured.server == OURS
    ]
    beside = [f"{measured.share(one.settles_s):.0f} %" for measured in found if measured.server == NGINX]
    text = f"/a is guaranteed {one.guaranteed:g} % and gets, by connections of /a and /b, {', '.join(parts)}"
    return f"{text}; with nginx {', '.join(beside)}." if beside else f"{text}."


def _start_nginx(bench: Workbench, network: NamespaceNetwork | None, root: Path, stack: ExitStack) -> tuple[str, int]:
    host, port = ("127.0.0.1", free_port()) if network is None else (network.address(NGINX), PORT)
    folder = bench.scratch / "nginx"
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, host=host, port=port, root=root), "utf-8")
    before = [] if network is None else network.at(NGINX)
    process = start([*before, "nginx", "-e", str(folder / "nginx.log"), "-c", str(config)], folder / "said.txt")
    stack.callback(end, process)
    if network is None:
        _pin(process.pid, 0)
    return host, port


def _load(
    network: NamespaceNetwork | None, host: str, port: int, seconds: float, connections: str
) -> list[ClassResult]:
    counts = zip(("/a", "/b"), connections.split("/"), strict=True)
    before = [] if network is None else network.at()
    command = [
        *before, sys.executable, "-m", "loadgen.experiments.closed_loop", host, str(port), f"{seconds:g}",
        *(f"{'/' + page_of(name).lstrip('/')}:{count}" for name, count in counts),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    if network is None:
        _pin(process.pid, 1)
    try:
        said, wrong = process.communicate(timeout=seconds + 90)
    except subprocess.TimeoutExpired:
        raise CannotRun("the load did not end in time") from None
    finally:
        end(process)
    if process.returncode:
        raise CannotRun(f"the load failed: {wrong.decode('utf-8', 'replace').strip().splitlines()[-1:]}")
    return msgspec.json.decode(said, type=list[ClassResult])


def _pin(process: int, core: int) -> None:
    """Pin a process to a processor. Server and clients get one each, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(process, {cores[core]})


def _busy_s(process: int) -> float:
    """How long the main thread of a process ran, or waited for a processor."""
    ran_ns, delay_ns, _ = Path(f"/proc/{process}/schedstat").read_text("utf-8").split()
    return (int(ran_ns) + int(delay_ns)) / 1e9


def _logged(log: Path, least: int = 0) -> int:
    """Served requests in the log and its rotated parts. Waits for `least`: a node writes its log in batches."""
    until = time.monotonic() + LAST_LINES_S
    while True:
        count = 0
        for part in log.parent.glob(f"{log.name}*"):
            with part.open("rb") as file:
                count += sum(line is not None and line.decision == SERVED for line in log_lines(file))
        if count >= least or time.monotonic() > until:
            return count
        time.sleep(0.2)


def _causes(log: Path) -> set[str]:
    """Of contention, by the events of the log."""
    found = set()
    for part in log.parent.glob(f"{log.name}*"):
        with part.open("rb") as file:
            for text in file:
                if text.startswith(b'{"event":"resource"') and text.endswith(b"}\n"):
                    found.add(msgspec.json.decode(text)["cause"])
    return {cause for cause in found if cause}


def _shape(network: NamespaceNetwork, name: str) -> None:
    """Set the rate of a server's line."""
    limit = max(30_000, int(LINE_MBIT * 125_000 * LINE_BUFFER_S))
    words = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{LINE_MBIT}mbit"]
    done = subprocess.run(
        [*network.at(name), *words, "burst", "16kb", "limit", str(limit)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NamespacesUnavailable(f"tc: {done.stderr.strip()}")


PROCESSOR = FullResourceExperiment(
    "processor", "A node whose processor is full, without a capacity set", 70.0, ("16/48", "48/16"), is_line=False
)
LINE = FullResourceExperiment(
    "line", "A node whose outgoing line is full, without a capacity set", 65.0, ("6/26", "26/6"), is_line=True
)
