"""The examples in the documentation of the stack match the behaviour of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from cluster.sim import stories
from cluster.sim.narrate import Detail
from cluster.stack import Process
from tests.cluster.test_stack import layers_of_the_stack

TOP = Path(__file__).resolve().parents[2]
STACK = TOP / "docs" / "explanation" / "group.md"
API = TOP / "docs" / "reference" / "cluster.md"


def test_the_broadcast_in_the_docs_matches_the_narrated_story() -> None:
    lines: list[str] = []
    stories.narrate_story("broadcast", Process, lines.append, Detail.LAYERS)
    assert "\n".join(lines) in STACK.read_text("utf-8")


def test_every_layer_of_the_stack_is_in_the_docs() -> None:
    text = STACK.read_text("utf-8")
    assert all(f"`{layer.__module__.removeprefix('cluster.')}.py`" in text for layer in layers_of_the_stack())


def test_the_replica_in_the_docs_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", API.read_text("utf-8"), re.DOTALL)
    program = next(block for block in blocks if "asyncio.run" in block)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("b is in <")
    assert "colour is blue" in lines
    assert any(line.startswith("True ") and line.endswith("size is 7") for line in lines)
    assert any(line.endswith(" True") for line in lines)
