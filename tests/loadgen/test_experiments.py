"""Experiments as a user runs them: real nodes, a real load, files, a page, a verdict, an exit code."""

from __future__ import annotations

import csv
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from loadgen.cli import main
from loadgen.errors import UsageError
from loadgen.experiments.bench import Bench, Size
from loadgen.experiments.catalogue import CATALOGUE
from loadgen.experiments.findings import Check, Findings
from loadgen.experiments.namespaces import Network, NotAllowed
from loadgen.experiments.processes import CannotRun
from loadgen.experiments.series import carry_out
from tests.analytics.logs.verifier import Given, verify

if TYPE_CHECKING:
    from pathlib import Path

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
    proved = next(check for check in one["checks"] if check["text"].startswith("the analysis of the logs"))
    assert proved["holds"]
    assert "held" in proved["actual"]
    assert "What the logs prove" in page
    report = json.loads((tmp_path / "analysis" / "always-16k" / "report.json").read_text())
    assert report["outcome"] != "not tested"
    _check_with_the_verifier(report, tmp_path / "always-16k" / "n1.access.log")


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


class _Broken:
    """An experiment that says what the test wants."""

    name, source, title, criterion, printed = "broken", "nowhere", "Broken", "None.", ""

    def __init__(self, findings: Findings | None) -> None:
        self._findings = findings

    def carry_out(self, bench: Bench) -> Findings:
        bench.say("about to fail")
        if self._findings is None:
            raise CannotRun("the node ended by itself: <why>")
        return self._findings


@pytest.mark.parametrize("findings", [None, Findings("Nothing.", [Check("it <holds>", False, "no")])])
def test_what_fails_is_told_and_the_page_is_there(tmp_path: Path, findings: Findings | None) -> None:
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


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "shares-16k" / "thesis.tex"
    mine.parent.mkdir()
    mine.write_text("years of work")
    old = tmp_path / "sizes" / "n1.access.log"
    old.parent.mkdir()
    old.write_text("{}")
    with pytest.raises(UsageError, match=r"thesis\.tex: is not of an experiment"):
        Bench("shares-16k", mine.parent, Size(), print)
    assert mine.read_text() == "years of work"
    Bench("sizes", old.parent, Size(), print).close()
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
    network = Network(["n1", "n2"])

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
    except NotAllowed as error:
        pytest.skip(str(error))


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


def test_without_names_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiments"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [one.name for one in CATALOGUE]


def test_every_experiment_has_a_specification_and_says_what_it_shows(tmp_path: Path) -> None:
    for one in CATALOGUE:
        bench = Bench(one.name, tmp_path / one.name, Size(), print)
        try:
            assert bench.spec().is_file()
            assert "set lifetime = 70ms" in bench.spec(lifetime="70ms").read_text()
        finally:
            bench.close()
        assert one.criterion.endswith(".")
        assert bool(one.printed) == (one.source != "beyond the paper")


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
