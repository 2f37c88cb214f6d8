"""What cluster/README.md shows is what happens."""

from __future__ import annotations

from pathlib import Path

from cluster.sim import stories
from cluster.sim.narrate import Detail
from cluster.stack import STACK, Process

README = Path(__file__).resolve().parent.parent.parent / "cluster" / "README.md"


def test_the_broadcast_in_the_readme_is_the_one_that_is_told() -> None:
    lines: list[str] = []
    stories.tell("broadcast", Process, lines.append, Detail.STORY)
    assert "\n".join(lines) in README.read_text("utf-8")


def test_every_layer_of_the_stack_is_in_the_readme() -> None:
    text = README.read_text("utf-8")
    layers = [layer for entry in STACK for layer in (entry if isinstance(entry, tuple) else (entry,))]
    assert all(f"`{layer.__module__.removeprefix('cluster.')}.py`" in text for layer in layers)
