"""Runs the demo under the overload that it prints, by day and by night rule, and judges its logs by `qosweb analyze`.

The load is the command that the demo prints under "each class gets its share". Both rules are tested at any hour: the
policy is that of the sample site with one of its two rules for free pages. By night the rate is 2.5 times as high,
because the ceiling of 60 % is tested only if readers ask for more than that.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from signal import Signals
from typing import Any

from qosweb.demo.demo import SPEC
from tests.demo.test_demo import Demo
from tests.support.nodes import environment, run_command

RULES = {"day": "not night => ", "night": "night => "}
EVERY_RULE = tuple(RULES)
RATES = {"day": "60", "night": "150"}  # requests per second
SETTLED_S = 3.0  # until the queues are full


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign demo-guarantees", description=__doc__)
    parser.add_argument("--nodes", default="3")
    parser.add_argument("--rate", help=f"requests per second (default: {RATES})")
    parser.add_argument("--seed", default="1", help="of the arrivals (1)")
    parser.add_argument("--rule", choices=EVERY_RULE, action="append", help="day or night (default: one after another)")
    options = parser.parse_args(arguments)
    failed = 0
    for rule in options.rule or EVERY_RULE:
        with tempfile.TemporaryDirectory(prefix="demo-guarantees-") as folder:
            rate = options.rate or RATES[rule]
            code, report = judge(Path(folder), options.nodes, rate, rule, options.seed)
            print(f"{rule}, {options.nodes} nodes, {rate}/s: {'held' if code == 0 else 'NOT HELD'}\n{report}")
            failed += code != 0
    return 1 if failed else 0


def judge(folder: Path, nodes: str, rate: str, rule: str, seed: str) -> tuple[int, str]:
    """Run the demo under load; return the exit code and the report of the analysis."""
    kept, spec = folder / "logs", folder / "rules.webqos"
    spec.write_text(policy_by(rule))
    with Demo(folder, "--nodes", nodes, "--port", "0", "--keep", str(kept)) as demo:
        admin = re.findall(r"dashboard http://(\S+)/", demo.text())[0]
        assert run_command("reload", str(spec), "--admin", admin).returncode == 0
        found = re.search(r"each class gets its share\n  (.*)", demo.text())
        assert found is not None
        load = found[1].replace("--rate 60", f"--rate {rate} --seed {seed}")
        begin = time.time()
        subprocess.run(["sh", "-c", load], env=environment(), stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True)
        end = time.time()
        demo.process.send_signal(Signals.SIGINT)
        demo.process.wait(60)
    done = run_command("analyze", str(kept / "n*.log"), "--quiet")
    return done.returncode, done.stdout + done.stderr + free_share(kept, begin + SETTLED_S, end)


def policy_by(rule: str) -> str:
    """The sample site's policy with one rule for free pages, at any hour."""
    lines = SPEC.read_text().splitlines(keepends=True)
    others = tuple(text for name, text in RULES.items() if name != rule)
    return "".join(
        line.removeprefix(RULES[rule]) for line in lines if not line.startswith(("let night", *others))
    )  # fmt: skip


def free_share(logs: Path, begin: float, end: float) -> str:
    """The part of the free pages in the bytes of what arrived while the cluster was overloaded."""
    sent: Counter[str] = Counter()
    for one in logs.glob("*.log"):
        for text in one.open():
            line: dict[str, Any] = json.loads(text)
            if "class" in line and begin <= line["ts"] < end:
                sent[line["class"]] += line["bytes"]
    return f"/free: {100 * sent['/free'] / sent.total():.1f} % of the bytes under load\n"
