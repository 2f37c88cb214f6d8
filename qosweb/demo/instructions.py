"""What the demo tells the person at the terminal: where everything is, and what to try, as commands to paste."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.demo.demo_nodes import CAPACITY

if TYPE_CHECKING:
    from qosweb.demo.demo_nodes import DemoNodes

PAGES = (
    ("/", "the shop's front page, always available"),
    ("/free/", "articles for everybody"),
    ("/paid/full/", "the archive for subscribers, promised half of the house"),
    ("/shop/", "what is for sale"),
    ("/checkout/", "where it is paid for, always available"),
)
EVENING = """\
# The readers' evening: half of the house is for the free pages, and subscribers come after them.
set lifetime = 500ms
set channel = 128KB in 250ms

</index.html>.available = always
</style.css>.available = always
</cart>.available = always
</checkout>.available = always
</free>.server_resource > 50%
</paid/full>.server_resource < 20%
"""


def introduction(crew: DemoNodes, spec: Path, evening: Path) -> str:
    qosweb, loadgen = _command("qosweb", "qosweb"), _command("loadgen", "loadgen.cli")
    first, last = crew.members[0], crew.members[-1]
    lines = [
        f"{_nodes(len(crew.members))} with the sample shop, under a gentle load:",
        "",
        *(f"  {one.name}  pid {one.pid:<8} {one.url}/   dashboard http://{one.admin}/" for one in crew.members),
    ]
    lines += ["", "Pages, at any of them:", ""]
    lines += [f"  {first.url + path:<34} {what}" for path, what in PAGES]
    lines += [
        "",
        f"What is promised: {spec}",
        f"Logs: {crew.folder}/n*.log, until the end",
        "",
        "Try, in another terminal:",
        "",
    ]
    targets = " ".join(f"--target {one.url}" for one in crew.members)
    crowd = f"--mix 'readers=1:/free/hollin-preview.jpg' | {loadgen} run - {targets}"
    both = "--mix 'readers=4:/free/hollin-preview.jpg' --mix 'subscribers=2:/paid/full/hollin-sheet.jpg'"
    join = " ".join(f"--join {one.group}" for one in crew.members[:2])
    newcomer = shlex.join(crew.options(f"n{len(crew.members) + 1}", "--listen", "127.0.0.1:0", "--admin", "none"))
    steps = [
        ("watch the cluster", f"{qosweb} status --admin {first.admin} --watch"),
        ("ask for a page; the answer names its class", f"curl -si {first.url}/free/ | grep QoS"),
        ("a crowd of readers: the others do not suffer", f"{loadgen} trace --rate 150 --duration 30s {crowd}"),
        (
            "readers and subscribers, both too many: the shares hold",
            f"{loadgen} trace --rate 60 --duration 60s {both} | {loadgen} run - {targets}",
        ),
        ("change the policy of the whole cluster, and back", f"{qosweb} reload {evening} --admin {first.admin}"),
        ("", f"{qosweb} reload {spec} --admin {first.admin}"),
    ]
    if len(crew.members) > 1:
        steps += [
            (f"cut off {last.name}, and let it come back", f"kill -STOP {last.pid}; sleep 10; kill -CONT {last.pid}"),
            (f"kill {last.name}", f"kill -9 {last.pid}"),
        ]
    steps.append(("add a node", f"{qosweb} serve {newcomer} --access-log none {join}"))
    for what, command in steps:
        lines += [f"  # {what}"] if what else []
        lines += [f"  {command}"]
    lines += ["", "Ctrl-C ends it. What happens, from now on:"]
    return "\n".join(lines)


def _nodes(count: int) -> str:
    return f"A node of {CAPACITY}" if count == 1 else f"A cluster of {count} nodes of {CAPACITY}"


def _command(script: str, module: str) -> str:
    """How to start it from a shell: by its name if that is found there, else beside this interpreter."""
    beside = Path(sys.executable).with_name(script)
    if (found := shutil.which(script)) is not None and (not beside.exists() or Path(found).samefile(beside)):
        return script
    if beside.exists():
        return shlex.quote(str(beside))
    return f"{shlex.quote(sys.executable)} -m {module}"
