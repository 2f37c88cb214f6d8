"""Help texts and shell completion: every command has examples that its own parser accepts."""

from __future__ import annotations

import argparse
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
import shtab

import cluster.runtime.commands.main
import loadgen.cli
import qosweb.cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PARSERS = {
    "qosweb": qosweb.cli.make_parser(),
    "loadgen": loadgen.cli.make_parser(),
    "python -m cluster": cluster.runtime.commands.main.make_parser(),
}


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


COMMANDS = [
    (program, name, command) for program, parser in PARSERS.items() for name, command in commands_of(parser).items()
]


def parse(line: str) -> None:
    """Parse each command of a pipeline. Raises if a parser does not accept it."""
    for part in line.split(" | "):
        program = next(program for program in PARSERS if part.startswith(f"{program} "))
        words = shlex.split(part.removeprefix(program))
        if words != ["COMMAND", "--help"]:
            PARSERS[program].parse_args(words)


def examples_in(text: str) -> Iterator[str]:
    _, _, listed = text.partition("\nexamples:\n")
    for line in listed.splitlines():
        yield line.strip().split("   ")[0]  # an explanation may follow


@pytest.mark.parametrize(("program", "name", "command"), COMMANDS, ids=[f"{p} {n}" for p, n, _ in COMMANDS])
def test_every_command_has_examples_that_work(program: str, name: str, command: argparse.ArgumentParser) -> None:
    found = list(examples_in(command.format_help()))
    assert found
    assert all(line.startswith(f"{program} {name}") or f" {program} {name} " in f" {line} " for line in found), found
    for line in found:
        parse(line)


@pytest.mark.parametrize("program", PARSERS)
def test_every_program_has_examples_that_work(program: str) -> None:
    for line in examples_in(PARSERS[program].format_help()):
        parse(line)


@pytest.mark.parametrize(("program", "name", "command"), COMMANDS, ids=[f"{p} {n}" for p, n, _ in COMMANDS])
def test_every_option_is_explained(program: str, name: str, command: argparse.ArgumentParser) -> None:
    assert [action.dest for action in command._actions if not action.help] == [], f"{program} {name}"


@pytest.mark.parametrize(("program", "name", "command"), COMMANDS, ids=[f"{p} {n}" for p, n, _ in COMMANDS])
def test_a_long_list_of_options_has_groups(program: str, name: str, command: argparse.ArgumentParser) -> None:
    sizes = [len(group._group_actions) for group in command._action_groups]
    assert max(sizes) <= 12, f"{program} {name}"


@pytest.mark.parametrize("words", [["qosweb", "ser"], ["loadgen", "rep"], ["qosweb", "serve", "--cache-s"]])
def test_bash_completes_commands_and_options(words: list[str]) -> None:
    script = shtab.complete(PARSERS[words[0]], "bash")
    line = shlex.join(words)
    function = next(row.split()[-2] for row in script.splitlines() if row.startswith("complete "))
    program = f"""{script}
COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}
{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False, timeout=30)
    expected = {"ser": {"serve"}, "rep": {"replay", "report"}, "--cache-s": {"--cache-size"}}[words[-1]]
    assert set(done.stdout.split()) == expected, done.stderr


def test_files_are_completed() -> None:
    assert "_shtab_compgen_files" in shtab.complete(PARSERS["qosweb"], "bash").partition("_spec_COMPGEN")[2]
    assert "_files" in shtab.complete(PARSERS["qosweb"], "zsh")
