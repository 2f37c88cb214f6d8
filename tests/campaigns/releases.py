"""Site releases under load: many publishes, killed nodes and a partition, watched by visitors.

No visitor may see a mixture of releases, an older release after a newer one, or a 404 for a file of its release. At the
end all nodes have the same list of releases, and a rollback is in force everywhere within a second.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from loadgen.experiments.namespaces import NamespaceNetwork
from loadgen.experiments.nodes import NodePlace, NodeProcesses
from tests.support.nodes import COMMAND, environment
from tests.support.waiting import wait_for

NAMES = ("n1", "n2", "n3")
PAGES = 50
CHANGED_MAX = 20
PORT = 8080


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign releases", description=__doc__)
    parser.add_argument("--publishes", type=int, default=40, metavar="N", help="publishes (default: 40)")
    parser.add_argument("--files", type=int, default=2000, metavar="N", help="files of the site (default: 2000)")
    parser.add_argument("--megabytes", type=int, default=200, metavar="N", help="size of the site (default: 200)")
    parser.add_argument("--visitors", type=int, default=8, metavar="N", help="visitors (default: 8)")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="releases-") as folder, NamespaceNetwork(NAMES) as spaces:
        return Campaign(Path(folder), spaces, options).run()


class Campaign:
    def __init__(self, folder: Path, spaces: NamespaceNetwork, options: argparse.Namespace) -> None:
        self.folder = folder
        self.spaces = spaces
        self.options = options
        self.chance = random.Random(options.seed)
        self.site = folder / "site"
        self.published = 0
        self.refused: list[str] = []
        self.took_s: list[float] = []  # of each publish

    def run(self) -> int:
        self.make_site()
        with NodeProcesses(self.folder, ["--site"], cluster=True) as nodes:
            self.nodes = nodes
            for name in NAMES:
                self.begin(name)
                if name == NAMES[0]:
                    nodes[name].wait()
            nodes.settle()
            began = time.monotonic()
            self.publish("n1")
            print(f"first release ({self.options.megabytes} MB) after {time.monotonic() - began:.1f} s", flush=True)
            visitors = self.start_visitors()
            began = time.monotonic()
            self.publish_under_faults()
            took_s = sorted(self.took_s)
            print(f"a publish took {took_s[len(took_s) // 2]:.2f} s in the middle, {took_s[-1]:.2f} s at most")
            print(
                f"{self.published} publishes in {time.monotonic() - began:.1f} s; refused: {self.refused}", flush=True
            )
            self.agree()
            rollback_s = self.roll_back()
            self.compare_states()
            out, _ = visitors.communicate("", timeout=60)
            found = json.loads(out)
            print(f"visitors: {found['counts']}")
            print(f"rollback in force at all nodes after {rollback_s:.2f} s")
            for one in found["violations"]:
                print(f"VIOLATION {one}")
            is_good = not found["violation_count"] and rollback_s < 1.0 and found["counts"]["parts"] > 100
            print("passed" if is_good else f"FAILED: {found['violation_count']} violations")
            return 0 if is_good else 1

    def make_site(self) -> None:
        """Pages that name parts; parts begin with the word of their page. The rest is ballast."""
        (self.site / "parts").mkdir(parents=True)
        self.write_pages("r0", range(PAGES))
        ballast = max(1, self.options.files - 7 * PAGES)
        size = self.options.megabytes * 1_000_000 // ballast
        for at in range(ballast):
            (self.site / f"ballast{at}.bin").write_bytes(self.chance.randbytes(size))

    def write_pages(self, word: str, pages: Any) -> None:
        for page in pages:
            parts = [f"/parts/p{page}-{at}.css" for at in range(6)]
            for part in parts:
                (self.site / part[1:]).write_text(f"{word} {part}")
            (self.site / f"p{page}.html").write_text(f"{word} " + "\n".join(parts))

    def begin(self, name: str) -> None:
        spaces = self.spaces
        place = NodePlace(spaces.address(name), tuple(spaces.at(name)), partial(spaces.within, name))
        self.nodes.all = [node for node in self.nodes.all if node.name != name]
        listen = ["--listen", f"{place.host}:{PORT}"]  # the same after a restart
        self.nodes.begin(name, place, [*listen, "--data-dir", str(self.folder / f"data-{name}")])

    def start_visitors(self) -> subprocess.Popen[str]:
        addresses = [self.nodes[name].url.removeprefix("http://").rstrip("/") for name in NAMES]
        command = [sys.executable, "-m", "tests.support.release_visitors", str(self.options.visitors), *addresses]
        return subprocess.Popen(
            [*self.spaces.at(), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def publish(self, name: str) -> bool:
        """Publish the folder at a node. Returns whether the release became current."""
        admin = self.nodes[name].admin.removeprefix("http://")
        command = [*self.spaces.at(name), *COMMAND, "publish", str(self.site), "--admin", admin]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)
        if done.returncode:
            self.refused.append(done.stderr.strip()[-120:])
        return done.returncode == 0

    def publish_under_faults(self) -> None:
        """Publish at random nodes. A node is killed and comes back twice; a partition lasts for a while."""
        total = self.options.publishes
        lasts = max(1, total // 10)
        kills = {total // 5: "n3", total // 2: "n1"}
        back = {at + lasts: name for at, name in kills.items()}
        cut, heal = 4 * total // 5, 4 * total // 5 + lasts
        for step in range(total):
            if step in kills:
                self.nodes[kills[step]].kill()
            if step in back:
                self.begin(back[step])  # publishing goes on while it starts and catches up
            if step - lasts in back:
                self.nodes[back[step - lasts]].wait()
            if step == cut:
                self.spaces.part(NAMES[:2], NAMES[2:])
            if step == heal:
                self.spaces.heal()
            changed = self.chance.sample(range(PAGES), CHANGED_MAX // 7)
            self.write_pages(f"r{step + 1}", changed)
            away = {name for at, name in kills.items() if at <= step < at + 2 * lasts}
            usable = [name for name in NAMES if name not in away and not (cut <= step < heal and name == "n3")]
            began = time.monotonic()
            self.published += self.publish(self.chance.choice(usable))
            self.took_s.append(time.monotonic() - began)
        self.nodes.settle()

    def releases(self, name: str) -> dict[str, Any]:
        return dict((self.nodes[name].status() or {}).get("releases") or {})

    def agree(self) -> None:
        def equal() -> bool | None:
            found = [self.releases(name) for name in NAMES]
            lists = [[one["release"] for one in each.get("releases", ())] for each in found]
            served = {each.get("served") for each in found}
            return (lists[0] != [] and lists[1:] == lists[:-1] and len(served) == 1) or None

        try:
            wait_for(equal, "the same releases at all nodes", 120)
        except AssertionError:
            for name in NAMES:
                print(name, self.nodes[name].members(), json.dumps(self.releases(name))[:600])
            raise

    def compare_states(self) -> None:
        """Wait until all nodes have told the digest of the replicated state at one position of the order."""
        told: dict[int, dict[str, str]] = {}

        def common() -> bool | None:
            for name in NAMES:
                group = (self.nodes[name].status() or {}).get("group") or {}
                if group.get("digest"):
                    told.setdefault(group["position"], {})[name] = group["digest"]
            return any(len(digests) == len(NAMES) for digests in told.values()) or None

        wait_for(common, "a digest of all nodes at one position", 60)
        position, digests = next(one for one in told.items() if len(one[1]) == len(NAMES))
        assert len(set(digests.values())) == 1, f"the states at position {position} differ: {digests}"
        print(f"the states at position {position} are equal: {digests[NAMES[0]]}")

    def roll_back(self) -> float:
        """Returns how long it took until all nodes served the earlier release."""
        before = self.releases("n2")["current"]
        admin = self.nodes["n2"].admin.removeprefix("http://")
        began = time.monotonic()
        command = [*self.spaces.at("n2"), *COMMAND, "rollback", "--json", "--admin", admin]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
        command_s = time.monotonic() - began
        assert done.returncode == 0, done.stderr
        began = time.monotonic()
        wait_for(
            lambda: all(self.releases(name).get("served", 0) > before for name in NAMES) or None, "the rollback", 30
        )
        print(f"the command took {command_s:.2f} s")
        return time.monotonic() - began
