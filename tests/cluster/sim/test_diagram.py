"""`python -m cluster sim --diagram`: the space-time diagrams show the messages, views and deliveries of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from cluster.runtime.commands.main import main
from cluster.sim.diagram.recorder import SpaceTimeRecorder
from cluster.sim.real_stack import factory_of
from cluster.sim.stories import STORIES, play_story

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def drawn(tmp_path: Path, *options: str) -> ET.Element:
    file = tmp_path / "run.svg"
    assert main(["sim", *options, "--diagram", str(file)]) == 0
    return ET.parse(file).getroot()


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_a_broadcast(tmp_path: Path) -> None:
    root = drawn(tmp_path, "--story", "broadcast")
    shown = texts(root)
    assert shown.count("deliver 'x'") == 3
    assert "b broadcasts x" in shown
    assert {"a", "b", "c"} <= set(shown)
    arrow_heads = list(root.iter(f"{SVG}polygon"))
    assert len(arrow_heads) == 6  # the entry, an acknowledgement and its confirmation, for each of the two others


def test_messages_across_a_partition_are_lost_and_views_are_shown(tmp_path: Path) -> None:
    shown = texts(drawn(tmp_path, "--story", "partition"))
    assert "partition abc | de" in shown
    assert "the network heals" in shown
    assert "✕" in shown
    assert shown.count("3: abc") == 3
    assert shown.count("6: abcde") == 5
    assert shown.count("deliver 'y'") == 5


@pytest.mark.parametrize("name", STORIES)
def test_messages_are_received_after_they_are_sent(name: str) -> None:
    run = SpaceTimeRecorder()
    play_story(name, factory_of(name), run)
    received = [arrow for arrow in run.arrows if arrow.received_at is not None]
    assert received
    assert all(arrow.received_at > arrow.sent_at for arrow in received if arrow.received_at is not None)
    assert run.views or name in ("broadcast", "interim-operation", "data-query")


def test_a_seed_with_crashes(tmp_path: Path) -> None:
    root = drawn(tmp_path, "--seed", "3", "--nodes", "3")
    assert any("more messages are not drawn" in text for text in texts(root)) or len(texts(root)) > 100
