"""Instructions that the demo prints: addresses, files, and commands to try."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.demo.demo_nodes import CAPACITY
from qosweb.demo.ports import choose_ports

if TYPE_CHECKING:
    from qosweb.demo.demo_nodes import DemoNodes

PAGES = (
    ("/", "the shop's front page, always available"),
    ("/free/", "articles for everybody"),
    ("/paid/full/", "the archive for subscribers, guaranteed half of the capacity"),
    ("/shop/", "what is for sale"),
    ("/checkout/", "the checkout, always available"),
)
EVENING = """\
# The readers' evening: the free pages have half of the capacity, and subscribers at most a fifth.
set lifetime = 500ms
set channel = 128KB in 250ms

</index.html>.available = always
</style.css>.available = always
</cart>.available = always
</checkout>.available = always
</free>.server_resource > 50%
</paid/full>.server_resource < 20%
"""


def introduction(nodes: DemoNodes, spec: Path, evening: Path, *, keeps_logs: bool) -> str:
    """The text that the demo prints when the cluster is ready. ``evening`` is the file of the other policy."""
    qosweb, loadgen = _command("qosweb", "qosweb"), _command("loadgen", "loadgen.cli")
    first, last = nodes.members[0], nodes.members[-1]
    lines = [
        f"{_nodes(len(nodes.members))} with the sample shop, under a light load:",
        "",
        *(
            f"  {member.name}  pid {member.pid:<8} {member.url}/   dashboard http://{member.admin}/"
            for member in nodes.members
        ),
    ]
    lines += ["", "Pages, at any node:", ""]
    lines += [f"  {first.url + path:<34} {what}" for path, what in PAGES]
    lines += [
        "",
        f"Specification: {spec}",
        f"Logs, kept: {nodes.logs}/n*.log"
        if keeps_logs
        else f"Logs, deleted at the end without --keep DIR: {nodes.logs}/n*.log",
        "",
        "Try in another terminal:",
        "",
    ]
    targets = " ".join(f"--target {member.url}" for member in nodes.members)
    crowd = f"--mix 'readers=1:/free/hollin-preview.jpg' | {loadgen} run - {targets}"
    both = "--mix 'readers=4:/free/hollin-preview.jpg' --mix 'subscribers=2:/paid/full/hollin-sheet.jpg'"
    join = " ".join(f"--join {member.group}" for member in nodes.members[:2])
    newcomer = shlex.join(nodes.options(f"n{len(nodes.members) + 1}", "--listen", "127.0.0.1:0", "--admin", "none"))
    steps = [
        ("watch the cluster, with queues and latency", f"{qosweb} top --admin {first.admin}"),
        ("the same as text, every second", f"{qosweb} status --admin {first.admin} --watch"),
        ("request a page; the response names its class", f"curl -si {first.url}/free/ | grep QoS"),
        ("overload by readers: other classes keep their service", f"{loadgen} trace --rate 150 --duration 30s {crowd}"),
        (
            "overload by readers and subscribers: each class gets its share",
            f"{loadgen} trace --rate 60 --duration 60s {both} | {loadgen} run - {targets}",
        ),
        ("judge by the logs whether all guarantees were held", analyze_command(nodes.logs)),
        ("change the policy of the whole cluster, and back", f"{qosweb} reload {evening} --admin {first.admin}"),
        ("", f"{qosweb} reload {spec} --admin {first.admin}"),
    ]
    steps += [
        ("block a network at all nodes for a while, and list what is blocked",
         f"{qosweb} block 203.0.113.0/24 --for 10min --reason 'too many requests' --admin {first.admin}"),
        ("", f"{qosweb} blocks --admin {last.admin}"),
    ]  # fmt: skip
    ports, _ = choose_ports(1, 0)
    steps += _releases(nodes, qosweb, ports[0].admin) + _search(nodes, ports[0].group, ports[0].public)
    if len(nodes.members) > 1:
        steps += [
            (f"suspend {last.name}, and let it return", f"kill -STOP {last.pid}; sleep 10; kill -CONT {last.pid}"),
            (f"kill {last.name}", f"kill -9 {last.pid}"),
        ]
    steps.append(("add a node", f"{qosweb} serve {newcomer} --access-log none {join}"))
    for what, command in steps:
        lines += [f"  # {what}"] if what else []
        lines += [f"  {command}"]
    lines += ["", "Ctrl-C stops the demo. Events:"]
    return "\n".join(lines)


def _releases(nodes: DemoNodes, qosweb: str, port: int) -> list[tuple[str, str]]:
    own = f"127.0.0.1:{port}"
    data = shlex.quote(str(nodes.folder / "releases"))
    site = shlex.quote(str(nodes.site))
    return [
        ("a node that stores its site itself: publish two releases, list them, roll back",
         f"{qosweb} serve --site --data-dir {data} --listen 127.0.0.1:0 --admin {own} & {_wait(own, '/releases')}"),
        ("", f"{qosweb} publish {site} --message first --admin {own}"),
        ("", f"{qosweb} publish {site}/free --message second --admin {own}"),
        ("", f"{qosweb} releases --admin {own}"),
        ("", f"{qosweb} rollback --admin {own}"),
    ]  # fmt: skip


def _search(nodes: DemoNodes, group_port: int, port: int) -> list[tuple[str, str]]:
    """Replicated search, in a source tree: the examples are not installed."""
    program = Path(__file__).parents[2] / "examples" / "search" / "search.py"
    if not program.is_file():
        return []
    python, key = shlex.quote(sys.executable), shlex.quote(str(nodes.folder / "search.key"))
    place = f"127.0.0.1:{port}"
    options = f"--key-file {key} --listen 127.0.0.1:{group_port} --http {place} --found"
    start = f"{python} {shlex.quote(str(program))} --name a {options}"
    return [
        ("replicated full-text search: a member (others --join it), a document, a search",
         f"{python} -m cluster key {key} && {{ {start} & {_wait(place, '/search?q=quick')}; }}"),
        ("", f"curl -sX PUT --data-binary 'a quick brown fox' http://{place}/documents/fox"),
        ("", f"curl -s 'http://{place}/search?q=quick'"),
    ]  # fmt: skip


def _wait(place: str, path: str) -> str:
    """The shell command that waits until a server listens."""
    return f"curl -s -o /dev/null --retry 30 --retry-delay 1 --retry-connrefused 'http://{place}{path}'"


def analyze_command(logs: Path) -> str:
    """The shell command that judges the logs in this folder."""
    return f"{_command('qosweb', 'qosweb')} analyze {shlex.quote(str(logs))}/n*.log"


def _nodes(count: int) -> str:
    return f"A node of {CAPACITY}" if count == 1 else f"A cluster of {count} nodes of {CAPACITY}"


def _command(script: str, module: str) -> str:
    """The shell command for a script: its name if it is on the PATH, else its path next to this interpreter."""
    installed = Path(sys.executable).with_name(script)
    if (found := shutil.which(script)) is not None and (not installed.exists() or Path(found).samefile(installed)):
        return script
    if installed.exists():
        return shlex.quote(str(installed))
    return f"{shlex.quote(sys.executable)} -m {module}"
