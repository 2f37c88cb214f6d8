"""The documentation is true: its commands and programs run, its outputs are right, its other blocks are valid."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import TYPE_CHECKING

import pytest

from qosweb.cli import main as qosweb_main
from qosweb.errors import UsageError
from tests.docs.blocks import DOCS, FILES, OUTPUT, PAGES, TOP, Block, blocks_of, namespace_command, run_pages
from tests.docs.test_help import PARSERS
from tests.webqos.support import found_in

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page)]
TESTED_ELSEWHERE = {  # pages whose examples other tests run
    DOCS / "reference" / "cluster.md": "tests/cluster/test_docs.py",
    DOCS / "reference" / "loadgen.md": "tests/loadgen/test_api.py",
    DOCS / "reference" / "specifications.md": "tests/webqos/test_api.py",
}
RUN = [
    page
    for page in PAGES
    if page not in TESTED_ELSEWHERE and page.parent.name != "tutorial" and any(one.is_run for one in blocks_of(page))
]  # fmt: skip
NEEDS = "needs network namespaces: run as root, or allow user namespaces"
PROGRAMS = re.compile(r"^(?:\S*/)?(qosweb|loadgen|python(?:3)? -m cluster)(?= )")


def name_of(page: Path) -> str:
    return str(page.relative_to(TOP))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in ("sh", "python", *OUTPUT, *FILES), f"{name_of(page)}:{block.line}: '{block.language}'"
        known = ("not run: ", "background:", "wait:", "exit codes:", "exact output", "similar output")
        assert not block.mark or block.mark.startswith(known) or block.mark.startswith("Generated"), block


@pytest.mark.skipif(
    namespace_command() is None, reason="needs network namespaces: run as root, or allow user namespaces"
)
@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    check_output(run_pages([page], tmp_path))


@pytest.mark.long
@pytest.mark.skipif(namespace_command() is None, reason=NEEDS)
def test_the_tutorial_runs(tmp_path: Path) -> None:
    names = ("first-site", "first-cluster", "first-overload", "first-proof")
    check_output(run_pages([DOCS / "tutorial" / f"{name}.md" for name in names], tmp_path))


def check_output(ran: list[tuple[Path, Block, str]]) -> None:
    before = ""
    for page, block, output in ran:
        if block.mark == "exact output":
            assert stripped(before) == stripped(block.code), f"{name_of(page)}:{block.line}"
        if block.mark == "similar output":
            assert generalised(before) == generalised(block.code), f"{name_of(page)}:{block.line}"
        before = output or before


def generalised(text: str) -> list[str]:
    """The lines with a sign for each number, id, and user with a host."""
    return stripped(re.sub(r"\S+@\S+|\b[0-9a-f]{16}\b|\d+", "#", text))


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def commands_in(code: str) -> list[list[str]]:
    """The commands of the project in a block: one list of words for each, beginning with the program."""
    found = []
    for line in re.sub(r"\\\n", " ", code).splitlines():
        for part in re.split(r" \| | && |; ", line):
            bare = part.strip().removeprefix("nohup ")
            if (match := PROGRAMS.match(bare)) and "..." not in bare:
                rest = re.split(r" > | & |   |&$", bare[match.end() :])[0]
                words = shlex.split(rest, comments=True)
                found.append([match[1].replace("python3", "python"), *words])
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_options_of_all_commands_exist(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "sh":
            for program, *words in commands_in(block.code):
                if words not in (["COMMAND", "--help"], ["--version"]) and words[-1:] != ["--help"]:
                    try:
                        PARSERS[program].parse_args(words)
                    except (SystemExit, UsageError) as error:
                        raise AssertionError(f"{name_of(page)}:{block.line}: {program} {words}: {error}") from None


def of_language(language: str) -> list[tuple[Path, Block]]:
    return [(page, block) for page, block in BLOCKS if block.language == language]


@pytest.mark.parametrize(("page", "block"), of_language("webqos"), ids=lambda one: getattr(one, "stem", None))
def test_specifications_have_no_mistakes(page: Path, block: Block) -> None:
    assert found_in(block.code) == [], f"{name_of(page)}:{block.line}"


def test_other_blocks_are_valid() -> None:
    for _, block in of_language("toml"):
        tomllib.loads(block.code)
    for _, block in of_language("json"):
        json.loads(block.code)


def test_the_error_in_the_settings_page_is_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "qosweb.toml"
    file.write_text('cache-sise = "1MB"\n')
    assert qosweb_main(["serve", "--config", str(file)]) == 2
    said = capsys.readouterr().err.replace(f"{tmp_path}/", "").strip()
    assert said in (DOCS / "reference" / "settings.md").read_text()
