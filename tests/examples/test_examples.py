"""Every example runs as it stands, and does what its README says."""

from __future__ import annotations

import configparser
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import nbclient
import nbformat
import pytest
import yaml

from cluster import make_key_file
from qosweb.cli import main
from qosweb.settings import gather
from tests.docs.blocks import TOP, namespace_command
from tests.docs.generated_pages import families
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EXAMPLES = TOP / "examples"
FOLDERS = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
NEEDS = "needs network namespaces: run as root, or allow user namespaces"
in_namespace = pytest.mark.skipif(namespace_command() is None, reason=NEEDS)
SERVERS = {  # folder: what to start, the ports to wait for, the port to ask, expected classes of paths
    "static-site": (
        ["qosweb serve --config qosweb.toml"], "8081", 8080,
        {"/checkout/": "/checkout", "/free/": "/free"},
    ),
    "reverse-proxy": (
        ["python app.py", "mkdir -p static; qosweb serve --config qosweb.toml"],
        "9000 8081",
        8080,
        {"/search?q=map": "/search", "/orders": "/orders"},
    ),
    "starlette": (
        ["uvicorn app:application --port 9000 --log-level warning"], "9000", 9000,
        {"/search": "/search", "/orders": "/orders"},
    ),
    "aiohttp": (["python app.py"], "9000", 9000, {"/search": "/search", "/orders": "/orders"}),
}  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_example_has_a_short_readme(folder: Path) -> None:
    assert 4 <= len((folder / "README.md").read_text("utf-8").splitlines()) <= 15
    assert f"]({folder.name})" in (EXAMPLES / "README.md").read_text("utf-8")


def test_every_example_is_tested() -> None:
    assert {folder.name for folder in FOLDERS} == {*SERVERS, "kv-store", "search", "notebook", "monitoring", "systemd"}


@pytest.mark.parametrize("spec", sorted(EXAMPLES.rglob("*.webqos")), ids=lambda path: path.parent.name)
def test_specifications_have_no_problems(spec: Path) -> None:
    assert main(["check", "--strict", str(spec)]) == 0


@in_namespace
@pytest.mark.parametrize("name", SERVERS)
def test_a_server_answers_with_the_class_of_each_page(name: str, tmp_path: Path) -> None:
    from tests.docs.blocks import WAIT_FOR_PORTS

    starts, ports, port, classes = SERVERS[name]
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    (tmp_path / "wait.py").write_text(WAIT_FOR_PORTS)
    asks = "\n".join(f"curl -si 'http://127.0.0.1:{port}{path}'; echo" for path in classes)
    script = "\n".join([*(f"( {start} ) &" for start in starts), f"python ../wait.py {ports}", asks])
    command = namespace_command()
    assert command is not None
    path = f"{TOP / '.venv' / 'bin'}:{sys.executable.rpartition('/')[0]}:/usr/sbin:/usr/bin:/sbin:/bin"
    done = subprocess.run(
        [*command, "env", f"PATH={path}", "bash", "-c", script],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    found = re.findall(r"^qos-class: (\S+)", done.stdout, re.MULTILINE | re.IGNORECASE)
    assert found == list(classes.values()), done.stdout + done.stderr
    assert done.stdout.count("HTTP/1.1 200") == len(classes)


class SearchMember:
    """A process of the search example, and a client that keeps its cookie."""

    def __init__(self, name: str, folder: Path, *more: str) -> None:
        program = EXAMPLES / "search" / "search.py"
        self.process = subprocess.Popen(
            [sys.executable, str(program), "--name", name, "--key-file", str(folder / "key"), *more],
            cwd=TOP, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(TOP)},
        )  # fmt: skip
        assert self.process.stdout is not None
        shown = json.loads(self.process.stdout.readline())
        self.address, self.http = shown["members"], shown["http"]

    def ask(self, method: str, path: str, body: str = "", seen: int = 0) -> tuple[int, Any]:
        host, _, port = self.http.partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        connection.request(method, path, body.encode(), {"Cookie": f"seen={seen}"})
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_the_search_is_replicated_and_shared(tmp_path: Path) -> None:
    make_key_file(tmp_path / "key")
    with ExitStack() as stack:
        members = [SearchMember("a", tmp_path, "--found")]
        stack.callback(members[0].stop)
        for name in "bc":
            members.append(SearchMember(name, tmp_path, "--join", members[0].address))
            stack.callback(members[-1].stop)
        wait_for(lambda: all(len(one.ask("GET", "/status")[1]["primary"]) == 3 for one in members), "three members")
        status, told = members[0].ask("PUT", "/documents/fox", "a quick brown fox")
        assert (status, told["documents"]) == (200, 1)
        for member in members:  # each has to show what the client has seen
            assert member.ask("GET", "/search?q=quick", seen=told["index"])[1]["found"] == [
                {"name": "fox", "text": "a [quick] brown fox"}
            ]
        before = [one.ask("GET", "/status")[1]["searches_executed"] for one in members]
        for _ in range(9):
            members[1].ask("GET", "/search?q=fox")
        after = [one.ask("GET", "/status")[1]["searches_executed"] for one in members]
        assert [new - old for new, old in zip(after, before, strict=True)] == [3, 3, 3]
        status, told = members[1].ask("GET", "/search?q=%22")
        assert (status, "no expression of FTS5" in told["error"]) == (400, True)
        assert members[1].ask("GET", "/search")[0] == 400
        members[0].stop()
        members[1].stop()  # kill -9 of the majority: searches go on, changes do not
        wait_for(lambda: not members[2].ask("GET", "/status")[1]["primary"], "c is alone")
        assert members[2].ask("GET", "/search?q=brown")[1]["found"][0]["name"] == "fox"
        status, told = members[2].ask("DELETE", "/documents/fox")
        assert (status, "no majority" in told["error"]) == (503, True)


def test_the_key_value_store_replicates(tmp_path: Path) -> None:
    program = EXAMPLES / "kv-store" / "kv_store.py"
    assert len(program.read_text("utf-8").splitlines()) < 100
    key = tmp_path / "cluster.key"
    subprocess.run([sys.executable, "-m", "cluster", "key", str(key)], check=True, cwd=TOP)

    def start(name: str, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(program), "--name", name, "--key-file", str(key), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def ask(member: subprocess.Popen[str], line: str) -> str:
        assert member.stdin is not None
        assert member.stdout is not None
        member.stdin.write(line + "\n")
        member.stdin.flush()
        return member.stdout.readline().strip()

    members = [start("a", "--found")]
    try:
        assert members[0].stdout is not None
        address = members[0].stdout.readline().split()[-1]
        members += [start(name, "--join", address) for name in "bc"]
        for member in members[1:]:
            assert member.stdout is not None
            assert "listens at" in member.stdout.readline()
        wait_for(lambda: ask(members[0], "members").split() == ["a", "b", "c"], "three members")
        assert ask(members[1], "set colour blue").startswith("colour = blue (entry ")
        wait_for(lambda: ask(members[2], "get colour") == "blue", "the value at the third member")
        members[0].kill()
        wait_for(lambda: ask(members[2], "members").split() == ["b", "c"], "the view without the first")
        assert ask(members[2], "set colour red").startswith("colour = red")
        assert ask(members[1], "quit") == ""
    finally:
        for member in members:
            member.kill()
            member.communicate()


@pytest.mark.long
def test_the_notebook_runs_in_a_kernel(tmp_path: Path) -> None:
    book = nbformat.read(  # type: ignore[no-untyped-call]
        EXAMPLES / "notebook" / "analysis.ipynb", as_version=4
    )
    nbclient.NotebookClient(
        book, timeout=180, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    printed = "".join(
        output.get("text", "") for cell in book.cells for output in cell.get("outputs", ()) if "text" in output
    )
    assert "outcome: violated" in printed
    assert "violated    </a>.server_resource > 50% as A" in printed
    assert any("image/png" in output.get("data", {}) for cell in book.cells for output in cell.get("outputs", ()))


def queries() -> Iterator[str]:
    rules = yaml.safe_load((EXAMPLES / "monitoring" / "alerts.yml").read_text("utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]
    board = json.loads((EXAMPLES / "monitoring" / "dashboard.json").read_text("utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def test_the_queries_name_metrics_and_labels_that_exist() -> None:
    known = {name: (kind, labels) for name, kind, _, labels in families()}
    asked = list(queries())
    assert len(asked) > 15
    for query in asked:
        for name in re.findall(r"\b(?:qosweb|cluster)_\w+", query):
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            assert name in known or known.get(base, ("",))[0] == "histogram", query
        names = [re.sub(r"_bucket$", "", name) for name in re.findall(r"\b(?:qosweb|cluster)_\w+", query)]
        allowed = {"le", "instance"}.union(*(known[name][1] for name in names))
        for listed in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert {label.strip() for label in listed.split(",")} <= allowed, query
    scraped = yaml.safe_load((EXAMPLES / "monitoring" / "prometheus.yml").read_text("utf-8"))
    assert scraped["rule_files"] == ["alerts.yml"]


def test_the_service_starts_a_command_that_exists() -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(EXAMPLES / "systemd" / "qosweb.service")
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["ExecStart"].endswith("/qosweb serve --config /etc/qosweb.toml")
    import tomllib

    text = (EXAMPLES / "systemd" / "qosweb.toml").read_text("utf-8")
    settings = gather({}, {}, tomllib.loads(text), "qosweb.toml")
    assert str(settings.listen) == "0.0.0.0:80"
