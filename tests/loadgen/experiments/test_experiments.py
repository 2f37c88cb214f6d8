"""Experiments as a user runs them: real nodes, a real load, files, a report, a verdict, an exit code."""

from __future__ import annotations

import csv
import json
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from loadgen.cli import main
from loadgen.experiments import catalogue
from loadgen.experiments.catalogue import BY_NAME, CATALOGUE
from loadgen.experiments.findings import Check, ExperimentFindings, Table
from loadgen.experiments.html_report import page
from loadgen.experiments.layout import ONE_PIPE, SIDE_BY_SIDE, Layout
from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from loadgen.experiments.processes import CannotRun
from loadgen.experiments.scenarios import contention, partition, response, throughput
from loadgen.experiments.scenarios.partition import within_sides
from loadgen.experiments.series import CompletedExperiment, carry_out
from loadgen.experiments.workbench import Size, Workbench
from loadgen.send.spread import parse_spread
from qosweb.errors import UsageError
from tests.analytics.logs.verifier import Given, verify

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

pytestmark = [pytest.mark.timing, pytest.mark.long]

_PNG = b"\x89PNG\r\n\x1a\n"


def test_one_node_keeps_always_and_shares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["experiments", "always-16k", "--quick", "--out", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == 0, told
    (one,) = told["experiments"]
    assert (one["name"], one["verdict"]) == ("always-16k", "pass")
    assert {check["text"].partition(":")[0] for check in one["checks"]} >= {"clients", "logs"}
    assert (tmp_path / "always-16k.png").read_bytes().startswith(_PNG)
    rows = list(csv.DictReader((tmp_path / "always-16k.csv").read_text().splitlines()))
    assert {row["witness"] for row in rows} == {"clients", "logs"}
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert "Table 1, ours beside the paper" in page
    assert "http://" not in page  # needs nothing from elsewhere
    assert (tmp_path / "always-16k" / "n1.access.log").stat().st_size > 0
    proved = next(check for check in one["checks"] if check["text"].startswith("the log analysis"))
    assert proved["holds"]
    assert "held" in proved["actual"]
    assert "Verdicts of the log analysis" in page
    report = json.loads((tmp_path / "analysis" / "always-16k" / "report.json").read_text())
    assert report["outcome"] != "not tested"
    _check_with_the_verifier(report, tmp_path / "always-16k" / "n1.access.log")


def test_without_matplotlib_nothing_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["experiments"]) == 0
    capsys.readouterr()
    assert main(["experiments", "always-16k", "--quick", "--out", str(tmp_path / "report")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "pip install 'qosweb[plots]'" in err
    assert not (tmp_path / "report").exists()


def _check_with_the_verifier(report: dict[str, Any], log: Path) -> None:
    """What real nodes logged, judged a second time by code that shares nothing with the analysis."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    limits = report["limits"]
    given = Given(limits["tolerance"], limits["window_s"], limits["request_cost"], limits["skip_s"])
    own = verify(lines, {one["policy"]: one["text"] for one in report["policies"]}, given)
    judged: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for one in report["windows"]:
        judged.setdefault((one["policy"], one["rule"], one["window"]), []).append(one)
    assert {rule for _, rule, _ in own} >= {"set lifetime = 500ms", "</a>.available = always"}
    assert {seen.outcome for seen in own.values()} >= {"held"}
    for key, seen in own.items():
        worst = min(judged[key], key=lambda one: ("violated", "held", "not tested").index(one["outcome"]))
        assert worst["outcome"] == seen.outcome, (key, worst, seen)
        if seen.promise is not None:
            (same,) = (one for one in judged[key] if one["kind"].endswith(seen.kind))
            assert same["promise"] == pytest.approx(seen.promise, rel=0.01), (key, same, seen)
            assert same["got"] == pytest.approx(seen.got), (key, same, seen)


def test_three_nodes_of_which_the_first_gets_most_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes", "3", "--spread", "skewed:2", "--quick", "--no-analysis", "--out", str(tmp_path)]
    code = main(["experiments", "shares-16k", *options])
    assert code == 0, capsys.readouterr().out
    logs = [(tmp_path / "shares-16k" / f"n{number}.access.log").read_text() for number in (1, 2, 3)]
    assert logs[0].count("\n") > 3 * logs[2].count('"decision":"denied"')
    assert all('"decision":"served"' in log for log in logs)


def test_throughput_beside_a_plain_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--quick", "--scale", "0.8", "--no-analysis", "--nodes", "3", "--out", str(tmp_path), "--json"]
    code = main(["experiments", "throughput", *options])
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert code == 0, told
    (one,) = told["experiments"]
    assert (one["name"], one["verdict"], one["spread"]) == ("throughput", "pass", None)
    assert one["not_applied"] == [f"--nodes 3 is not applied: {_ALIKE}"]
    assert f"note: --nodes 3 is not applied: {_ALIKE}" in said.err
    assert (tmp_path / "throughput.png").read_bytes().startswith(_PNG)
    rows = list(csv.DictReader((tmp_path / "throughput.csv").read_text().splitlines()))
    assert {(row["lifetime_s"], row["witness"]) for row in rows} >= {("0.1", "clients"), ("1", "logs")}
    assert {file.name for file in (tmp_path / "throughput").glob("*.access.log")} == {
        "plain.access.log", "t100.access.log", "t1000.access.log",
    }  # fmt: skip


class _Broken:
    """An experiment that says what the test wants."""

    name, source, title, printed = "broken", "nowhere", "Broken", ""

    def __init__(self, findings: ExperimentFindings | None, layout: Layout = ONE_PIPE) -> None:
        self._findings = findings
        self.layout = layout

    def criterion(self, *, quick: bool) -> str:
        return "Quick." if quick else "None."

    def carry_out(self, bench: Workbench) -> ExperimentFindings:
        bench.say("about to fail")
        if self._findings is None:
            raise CannotRun("the node ended by itself: <why>")
        return self._findings


@pytest.mark.parametrize("findings", [None, ExperimentFindings("Nothing.", [Check("it <holds>", False, "no")])])
def test_failure_is_reported_and_the_report_is_written(tmp_path: Path, findings: ExperimentFindings | None) -> None:
    said: list[str] = []
    (done,) = carry_out([_Broken(findings)], tmp_path, Size(quick=True), said.append)
    assert done.findings.verdict == "fail"
    assert said[:2] == ["broken (1 of 1): Broken", "  about to fail"]
    assert said[2].startswith("  fail, 0 s: ")
    page = (tmp_path / "report.html").read_text()
    assert "0 passed, 1 failed" in page
    assert "<why>" not in page
    assert "<holds>" not in page
    assert json.loads((tmp_path / "summary.json").read_text())["experiments"][0]["verdict"] == "fail"


_ONE_NODE = "--spread skewed is not applied: there is one node; add --nodes with their number, such as --nodes 3."
_ALIKE = "servers are compared side by side, and each gets the same load."


@pytest.mark.parametrize(
    ("name", "nodes", "used", "notes"),
    [
        ("shares-16k", 1, "", [_ONE_NODE]),
        ("flash-crowd", 1, "", [_ONE_NODE]),
        ("contention", 3, "skewed", []),
        ("throughput", 3, "", [f"--nodes 3 is not applied: {_ALIKE}", f"--spread skewed is not applied: {_ALIKE}"]),
        ("response", 1, "", [f"--spread skewed is not applied: {_ALIKE}"]),
        ("peers", 1, "", [f"--spread skewed is not applied: {_ALIKE}"]),
        ("scale-out", 1, "skewed", []),
        ("partition", 3, "skewed", ["--nodes 3 is not applied: the experiment has a fixed set of nodes."]),
    ],
)
def test_options_that_an_experiment_has_no_use_for_are_told(
    name: str, nodes: int, used: str, notes: list[str], tmp_path: Path
) -> None:
    said: list[str] = []
    one = _Broken(ExperimentFindings("Fine.", [Check("it holds", True, "yes")]), BY_NAME[name].layout)
    (done,) = carry_out([one], tmp_path, Size(nodes=nodes, spread="skewed"), said.append)
    assert [text.removeprefix("  note: ") for text in said if "note: " in text] == notes
    page = (tmp_path / "report.html").read_text()
    assert all(note in page for note in notes)
    assert ("was spread over" in page) == bool(used)
    assert page.count("skewed") == bool(used) + sum("skewed" in note for note in notes)
    told = json.loads((tmp_path / "summary.json").read_text())["experiments"][0]
    assert (told["spread"], told["not_applied"]) == (used or None, notes)
    assert done.findings.verdict == "pass"


def test_nothing_is_told_of_options_that_were_not_given() -> None:
    assert not any(one.layout.not_applied(1, "even") for one in CATALOGUE)


@pytest.mark.parametrize(
    ("spread", "weights"),
    [("even", [1, 1, 1, 1, 1]), ("one", [3, 0, 0, 2, 0]), ("skewed", [18 / 11, 9 / 11, 6 / 11, 4 / 3, 2 / 3])],
)
def test_a_cut_cluster_is_asked_on_both_sides(spread: str, weights: list[float]) -> None:
    assert parse_spread(within_sides(spread), 5) == pytest.approx(weights)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "shares-16k" / "thesis.tex"
    mine.parent.mkdir()
    mine.write_text("years of work")
    old = tmp_path / "sizes" / "n1.access.log"
    old.parent.mkdir()
    old.write_text("{}")
    with pytest.raises(UsageError, match=r"thesis\.tex: is not a file of an experiment"):
        Workbench("shares-16k", mine.parent, Size(), print)
    assert mine.read_text() == "years of work"
    Workbench("sizes", old.parent, Size(), print).close()
    assert not old.exists()


def test_where_there_are_no_namespaces_the_partition_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["experiments", "partition", "--quick", "--no-analysis", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("SKIPPED partition")
    assert "network namespaces" in out


def test_a_cut_network_is_silent_and_heals() -> None:
    network = NamespaceNetwork(["n1", "n2"])

    def ask(port: int, timeout_s: float = 60) -> bytes:
        with socket.create_connection((network.address("n1"), port), timeout_s) as client:
            return client.recv(5)

    try:
        with network, socket.socket() as server:
            network.within("n1", lambda: _listen(server, network.address("n1")))
            port = server.getsockname()[1]
            threading.Thread(target=_greet, args=(server, 2), daemon=True).start()
            assert network.within("n2", lambda: ask(port)) == b"hello"
            network.part(["n1"], ["n2"])
            with pytest.raises(TimeoutError):
                network.within("n2", lambda: ask(port, 1))
            network.heal()
            assert network.within("n2", lambda: ask(port)) == b"hello"
    except NamespacesUnavailable as error:
        pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {error}")


def _listen(server: socket.socket, host: str) -> bytes:
    """The listening socket is made here, where it stays."""
    with socket.socket() as made:
        made.bind((host, 0))
        made.listen()
        os.dup2(made.fileno(), server.fileno())
    return b""


def _greet(server: socket.socket, times: int) -> None:
    for _ in range(times):
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello")


def test_failed_experiment_sets_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = _Broken(ExperimentFindings("Nothing.", [Check("it holds", False, "no")]), SIDE_BY_SIDE)
    good = _Broken(ExperimentFindings("All.", [Check("it holds", True, "yes")]))
    for name, one in (("good", good), ("bad", bad)):
        monkeypatch.setattr(one, "name", name, raising=False)
        monkeypatch.setitem(BY_NAME, name, one)
    options = ["--quick", "--no-analysis", "--spread", "one", "--out", str(tmp_path / "out")]
    assert main(["experiments", "good", *options]) == 0
    assert main(["experiments", "good", "bad", *options]) == 1
    out = capsys.readouterr().out
    assert "PASS    good" in out
    assert "FAIL    bad" in out
    assert f"note:   --spread one is not applied: {_ALIKE}" in out


def test_experiments_are_listed_without_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiments"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [one.name for one in CATALOGUE]


def test_every_experiment_has_a_specification_and_says_what_it_shows(tmp_path: Path) -> None:
    for one in CATALOGUE:
        bench = Workbench(one.name, tmp_path / one.name, Size(), print)
        try:
            assert bench.spec().is_file()
            assert "set lifetime = 70ms" in bench.spec(lifetime="70ms").read_text()
        finally:
            bench.close()
        assert one.criterion(quick=False).endswith(".")
        assert one.criterion(quick=True).endswith(".")
        assert bool(one.printed) == (one.source != "beyond the paper")


@pytest.mark.parametrize("one", [contention, throughput, response])
def test_the_page_says_where_our_pages_are_smaller_than_the_papers(one: ModuleType) -> None:
    (experiment,) = [known for known in CATALOGUE if type(known).__module__ == one.__name__]
    ours = f"Its pages have 128 KB, ours {one.SIZE // 1024} KB"
    assert ours in experiment.printed
    shown = page(
        [
            CompletedExperiment(
                experiment, ExperimentFindings("Seen.", [Check("it holds", True, "")]), None, 1.0, "None."
            )
        ],
        "about",
    )
    assert ours in shown


def test_the_page_has_tables_pictures_and_escaped_text(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"png")
    table = Table("a table", ["name", "number"], [["<x>", "1,234.5"]])
    findings = ExperimentFindings("Seen.", [Check("1 < 2", False, "")], tables=[table], notes=["a note"])
    skipped = ExperimentFindings("", [], skipped="no namespaces")
    shown = page(
        [
            CompletedExperiment(CATALOGUE[0], findings, picture, 1.0, "None."),
            CompletedExperiment(CATALOGUE[1], skipped, None, 0.0, "None."),
        ],
        "about",
    )
    assert shown.startswith("<!doctype html>")
    for text in (
        "Experiments: 0 passed, 1 failed, 1 skipped", "<td>&lt;x&gt;</td><td class=n>1,234.5</td>", "1 &lt; 2",
        "a note", "data:image/png;base64,cG5n", "Skipped: no namespaces",
    ):  # fmt: skip
        assert text in shown


def test_the_criterion_of_the_partition_is_what_is_checked() -> None:
    for quick, points in ((False, partition.POINTS), (True, partition.QUICK_POINTS)):
        said = " ".join(BY_NAME["partition"].criterion(quick=quick).split())
        assert f"{partition.ORDERS_PERCENT:g} % or more are served by the three and none by the two" in said
        assert f"less {points:g} points" in said


QUICK_CRITERIA = {
    "shares-16k": ("within 2 points", "within 4 points"),
    "always-128k": ("within 2 points", "within 4 points"),
    "sizes": ("within 2 points", "within 4 points"),
    "flash-crowd": ("98 %", "93 %"),
    "contention": ("within 2 points, or 5 where", "within 4 points, or 5 where"),
    "throughput": ("95 %", "85 %"),
    "scale-out": ("less 2 points", "less 5 points"),
    "successive-failures": ("within 2 points and 75 %", "within 6 points and 60 %"),
    "peers": ("92 %", "80 %"),
    "upstream": ("92 %", "80 %"),
    "upstream-failing": ("90 %", "70 %"),
    "processor": ("within 4 points", "within 8 points"),
    "line": ("within 4 points", "within 8 points"),
}


@pytest.mark.parametrize("name", QUICK_CRITERIA)
def test_a_quick_run_has_its_own_criterion(name: str) -> None:
    usual, quick = (" ".join(BY_NAME[name].criterion(quick=quick).split()) for quick in (False, True))
    assert QUICK_CRITERIA[name][0] in usual
    assert QUICK_CRITERIA[name][0] not in quick
    assert QUICK_CRITERIA[name][1] in quick


def test_the_criterion_that_is_applied_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = _Broken(ExperimentFindings("Seen.", [Check("it holds", True, "")]))
    monkeypatch.setattr(catalogue, "BY_NAME", {"broken": broken})
    command = ["experiments", "broken", "--out", str(tmp_path), "--no-analysis"]
    for more, expected in (([], "None."), (["--quick"], "Quick.")):
        assert main([*command, *more]) == 0
        assert f"criterion: {expected}\n" in capsys.readouterr().out
        assert json.loads((tmp_path / "summary.json").read_text())["experiments"][0]["criterion"] == expected
        assert f"<p>{expected}</p>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["share-16k", "--out", "x"], "no experiment 'share-16k'; did you mean 'shares-16k'?"),
        (["shares-16k"], "--out is missing: a folder for the report, such as --out report"),
        (["all", "--out", "x", "--scale", "0"], "--scale: has to be more than 0 and at most 100"),
        (["all", "--out", "x", "--spread", "70,30"], "--spread '70,30': write one, even, skewed"),
        (["all", "--out", "x", "--nodes", "50"], "--nodes: at most 9"),
        (["all", "--out", "x", "--seed", "y"], "--seed: 'y' is not a whole number"),
        (["all", "--out", "/dev/null/x"], "--out /dev/null/x: Not a directory"),
    ],
)
def test_mistakes_are_told_on_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiments", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"loadgen: error: {message}")
