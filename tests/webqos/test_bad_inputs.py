"""Diagnostics of invalid specifications, compared with the table ``bad_inputs.txt``."""

from pathlib import Path

import pytest

from qosweb.webqos import compile_policy
from qosweb.webqos.syntax.positions import Source

TABLE = Path(__file__).with_name("bad_inputs.txt").read_text("utf-8")


def blocks() -> list[tuple[str, list[str]]]:
    found = []
    for block in TABLE.split("\n\n"):
        lines = [line for line in block.strip("\n").split("\n") if not line.startswith("# ")]
        said = [line.strip() for line in lines if line.startswith("    ")]
        if said:
            found.append(("\n".join(line for line in lines if not line.startswith("    ")), said))
    return found


def said_of(text: str) -> list[str]:
    source = Source("test", text + "\n")
    lines = []
    for one in compile_policy(source.text).diagnostics:
        line, column = source.place(one.span.start)
        parts = [f"{line}:{column}+{one.span.end - one.span.start} {one.severity}: {one.message}"]
        parts += [one.hint] if one.hint else []
        for note in one.notes:
            place = source.place(note.span.start)
            parts.append(f"{place[0]}:{place[1]} {note.message}")
        lines.append(" | ".join(parts))
    return lines or ["fine"]


@pytest.mark.parametrize(("text", "said"), blocks(), ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_diagnostics_of_a_mistake(text: str, said: list[str]) -> None:
    assert said_of(text) == said


def test_the_table_is_long() -> None:
    assert len(blocks()) >= 300
    assert sum("error" in line for _, said in blocks() for line in said) >= 250
