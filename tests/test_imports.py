"""Heavy libraries are loaded only by what needs them: this decides how much memory an idle node takes."""

import subprocess
import sys
from pathlib import Path

import pytest

from loadgen.cli import main as loadgen
from qosweb.cli import main

HEAVY = ("matplotlib", "numpy", "pyspark", "scipy")
ASYNCHRONOUS = ("aiohttp", "asyncio", "prometheus_client", "rich")
PAPER = str(Path(__file__).parent.parent / "webqos_specs" / "paper.webqos")


def loaded(code: str, names: tuple[str, ...]) -> list[str]:
    """Which of these modules a fresh interpreter has loaded after running this code."""
    show = f"import sys; print(*(name for name in {names!r} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{show}"], capture_output=True, text=True, check=True)
    return done.stderr.split()


@pytest.mark.parametrize("arguments", [["check", PAPER], ["explain", PAPER, "/free"], ["fmt", "--check", PAPER]])
def test_tools_for_specifications(arguments: list[str]) -> None:
    assert loaded(f"from qosweb.cli import main; main({arguments!r})", HEAVY + ASYNCHRONOUS) == []


def test_specification_of_many_classes(tmp_path: Path) -> None:
    """More rows than exact arithmetic is asked for."""
    spec = tmp_path / "site.webqos"
    rules = (f"</p{n}>.server_resource > 0.5%\n</p{n}>.server_resource < 20%\n" for n in range(100))
    spec.write_text("".join(rules))
    assert loaded(f"from qosweb.cli import main; main(['check', {str(spec)!r}])", HEAVY) == []


def test_node() -> None:
    """Without a specification, it does not need the parser either."""
    code = (
        "import qosweb.server.process.serve as _; from qosweb.engine.replicated.compiled_policy import CompiledPolicy"
    )
    assert loaded(f"{code}; CompiledPolicy.empty()", (*HEAVY, "rich", "pyparsing")) == []


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (main, ["shares", PAPER, "--png", "x.png"]),
        (main, ["analyze", "access.log", "--out", "report"]),
        (loadgen, ["experiments", "throughput", "--out", "report"]),
    ],
)
def test_without_the_extra_plots_one_line_says_what_to_install(
    command: object, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert callable(command)
    assert command(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("needs matplotlib. Run `pip install 'qosweb[plots]'`.\n")
    assert err.count("\n") == 1
