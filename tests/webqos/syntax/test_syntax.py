"""The parser: examples of the paper, positions, limits, and invalid texts."""

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.webqos import compile_policy
from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.syntax.scanner import DEPTH_MAX, LINES_MAX, TEXT_MAX
from tests.support.nodes import run_command
from tests.webqos.support import found_in

PAPER = [
    "<page>.server_resource = r",
    "<page>.server_resource < r",
    "<page>.server_resource > r",
    "<page>.available = always",
    "<www.commerce.com/free>.server_resource < 0.1",
    "<www.commerce.com/paid/full>.server_resource > 0.5",
    "<www.commerce.com/index>.available = always",
]


@pytest.mark.parametrize("line", PAPER)
def test_examples_of_the_paper_parse_unchanged(line: str) -> None:
    parsed, found = parse(Source("paper", line))
    assert found == []
    assert len(parsed.statements) == 1


def nodes_of(node: object) -> Iterator[tree.TreeNode]:
    if isinstance(node, tree.TreeNode):
        yield node
    if dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            yield from nodes_of(getattr(node, field.name))
    elif isinstance(node, tuple):
        for item in node:
            yield from nodes_of(item)


def test_every_node_has_the_span_of_its_text() -> None:
    text = (
        "let shop = </shop/**> | </cart/*> # pages\n"
        'shadow not (time in 22:00..06:00 or header("X") = "a") => shop.num_bytes < 2 * </b>.num_bytes as x\n'
        "client accessed(shop) within 30s and weekday in (sat, sun) => links(shop) before default; "
        "all.channel = 1KB in 1s"
    )
    source = Source("test", text)
    parsed, found = parse(source)
    assert found == []
    for node in nodes_of((*parsed.statements, *parsed.comments)):
        piece = source.cut(node.span)
        assert piece
        assert piece == piece.strip()
        match node:
            case tree.Name(text=word) | tree.PageName(name=word) | tree.Reference(name=word):
                assert piece == word
            case tree.Pattern(text=inside):
                assert piece == f"<{inside}>"
            case tree.Literal(text=inside, quoted=quoted):
                assert piece == (f'"{inside}"' if quoted else inside)
            case tree.Comment(text=comment):
                assert piece == comment


def test_all_mistakes_of_a_file_are_found_not_only_the_first() -> None:
    text = "".join(f"</page{number}>.server_resource << 3\n" for number in range(50))
    assert len(found_in(text)) == 50


def test_an_error_is_rendered_with_excerpt_and_hint() -> None:
    source = Source("site.webqos", "\n  </free>.server_ressource < 10%  # free\n")
    assert compile_policy(source.text, source.name).render_diagnostics() == (
        "site.webqos:2:11: error: unknown attribute 'server_ressource'\n"
        "    2 |   </free>.server_ressource < 10%  # free\n"
        "      |           ^^^^^^^^^^^^^^^^\n"
        "      = hint: did you mean 'server_resource'?\n"
    )


def test_a_long_line_is_shown_around_the_mistake() -> None:
    source = Source("x", f"</{'a' * 500}>.server_resource < fast # {'b' * 500}")
    shown = compile_policy(source.text, source.name).render_diagnostics().splitlines()
    assert max(map(len, shown)) < 140
    at = shown[2].index("^")
    assert shown[1][at : at + 4] == "fast"


@given(st.text())
def test_any_text_is_handled(text: str) -> None:
    source = Source("garbage", text)
    compile_policy(source.text, source.name).render_diagnostics()


VOCABULARY = """
set let shadow site lifetime channel = < > => <a> </b/**> <www.x.com/c> default all . server_resource num_bytes
available always 10% 0.3 5MB 30s ( ) | and or not in time 22:00..06:00 client 10.0.0.0/8 header("X") "gold"
accessed( links( within before * nodes of capacity hard as name ; # , .. equal rest size weekday sat
"""
WORDS = st.sampled_from([*VOCABULARY.split(), "\n"])


@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_any_sequence_of_keywords_is_handled(text: str) -> None:
    source = Source("words", text)
    compile_policy(source.text, source.name).render_diagnostics()


@given(st.binary(max_size=300))
def test_any_bytes_are_handled(data: bytes) -> None:
    source = Source("bytes", data.decode("utf-8", "replace"))
    compile_policy(source.text, source.name).render_diagnostics()


def test_deep_nesting_is_refused_and_quickly() -> None:
    for depth, fine in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False), (1_900, False)):
        text = "(" * depth + "time > 3:00" + ")" * depth + " => </a>.available = always"
        assert (found_in(text) == []) is fine
    assert found_in("not " * 900 + "time > 3:00 => </a>.available = always") == []
    assert found_in("links(" * 600 + "</a>" + ")" * 600 + " before </b>")


def test_long_chains_are_read() -> None:
    chain = " or ".join(f"nodes = {number}" for number in range(1, 25))
    assert found_in(f"{chain} => </a>.available = always") == []
    assert found_in(" before ".join(f"</p{number}>" for number in range(200))) == []


def test_names_of_names_of_names() -> None:
    lets = "".join(f"let c{number} = not c{number + 1}\n" for number in range(500))
    found = found_in(lets + "let c500 = time > 3:00\nc0 => </a>.available = always")
    assert any("deep" in one.message for one in found)


def test_doubling_names_stay_bounded() -> None:
    lets = "let c0 = time > 3:00\n" + "".join(f"let c{n + 1} = c{n} and c{n}\n" for n in range(40))
    before = time.process_time()
    found = found_in(lets + "c40 => </a>.available = always")
    assert time.process_time() - before < 20
    assert all("Traceback" not in one.message for one in found)


def test_a_million_lines_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "large.webqos"
    path.write_text("</a>.server_resource < 1%\n" * 1_000_000)
    done = run_command("check", str(path))
    assert done.returncode == 1
    assert "large.webqos:1:1: error: the file is too large" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("text", ["\n" * (LINES_MAX + 1), "x" * (TEXT_MAX + 1)], ids=["lines", "characters"])
def test_texts_beyond_the_limits_are_rejected(text: str) -> None:
    found = found_in(text)
    assert [one.message.startswith("the file is too l") for one in found] == [True]
    assert "is this a specification?" in found[0].hint


def test_line_ends_of_all_kinds() -> None:
    parsed, found = parse(Source("x", "\ufeff</a>.available = always\r\n</b>.available = always # c\r\n\r\n# d"))
    assert found == []
    assert len(parsed.statements) == 2
    assert [comment.text for comment in parsed.comments] == ["# c", "# d"]


def test_a_priority_over_too_many_classes_is_rejected() -> None:
    pages = "".join(f"<{side}/p{number}>.num_bytes < 1\n" for side in ("/a", "/b") for number in range(600))
    (one,) = found_in(f"{pages}</a> before </b>")
    assert one.message == "this priority orders 361,201 pairs of classes; at most 300,000 are allowed"
    assert found_in(f"{pages}</c> before all") == []
    assert found_in(f"{pages}</a> before default") == []
