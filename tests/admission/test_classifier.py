"""Classifier with ``--spec``: the class in responses, log and metrics; invalid specifications are rejected."""

import json
from pathlib import Path
from signal import Signals

import pytest

from qosweb.admission import Clock
from qosweb.admission.classifier import Classifier
from tests.admission.requests import Facts, File
from tests.engine.driver import policy_of
from tests.support.nodes import RunningNode, run_command
from tests.support.waiting import wait_for

SPEC = """
let internal = client in 127.0.0.0/8
let robots = header("User-Agent") like "*bot*"
</index.html>.available = always
</free>.server_resource < 10%
</paid/full>.server_resource > 50% as paid
robots => </api>.num_requests < 5
internal => </intern>.server_resource > 5%
size > 1KB => </dl>.num_bytes < 100 as large
accessed(</free>) within 30s => </shop>.server_resource > 10%
client accessed(</free>) within 30s => </gift>.available = always
links(</hub>).server_resource > 3%
shadow </other>.num_requests < 5
shadow load > 100000% => </other>.num_requests < 3
shadow </other> before </free>
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    for name, size in (
        ("index.html", 10), ("free/a.html", 10), ("paid/full/a.html", 10), ("api/x.json", 5), ("intern/x.txt", 3),
        ("dl/small.bin", 100), ("dl/large.bin", 5000), ("other.html", 4), ("shop/a.html", 5), ("gift/a.html", 5),
        ("far.html", 5), ("near.html", 5),
    ):  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * size)
    (root / "hub").mkdir()
    (root / "hub" / "index.html").write_text('<a href="../near.html">near</a>')
    return root


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "site.webqos"
    path.write_text(SPEC)
    return path


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ("</a>.server_resource > 10%\n", False),
        ('header("X-Robot") => </a>.num_requests < 5\n', False),
        ("last_access > 1h => </a>.num_requests < 5\n", False),
        ("size > 1MB => </a>.num_requests < 5\n", True),
        ('owner = "nobody" => </a>.num_requests < 5\n', True),
        ("last_modified < 1h and load > 80% => </a>.num_requests < 5\n", True),
        ("shadow size > 1MB => </a>.num_requests < 5\n", True),
    ],
)
def test_a_file_is_needed_only_for_rules_on_files(spec: str, needs: bool) -> None:
    assert Classifier(Clock(), policy_of(spec).model).needs_file is needs


def test_rules_on_files_ask_for_the_file() -> None:
    classifier = Classifier(Clock(), policy_of("size > 1MB => </a>.num_requests < 5 as large\n").model)
    files = (None, File(10), File(2 << 20))
    found = [classifier.class_of(Facts("/a", file=file), 0.0) for file in files]
    assert [classifier.names[number] for number in found] == ["/a", "/a", "large"]
    assert classifier.names[classifier.class_of(Facts(None), 0.0)] == "default"


def label(node: RunningNode, target: str, *fields: str) -> str:
    return node.get(target, *fields).headers["qos-class"]


def test_a_method_that_is_not_allowed_has_the_class_of_its_page(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        answer = node.get("/free/a.html", method="POST")
        assert (answer.status, answer.headers["qos-class"]) == (405, "/free")


def reload(node: RunningNode, times: int) -> None:
    node.kill(Signals.SIGHUP)
    wait_for(lambda: sum(" reloaded: " in line for line in node.stderr) == times or None, "the reload")


def test_every_answer_names_its_class(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        expected = {
            "/": "/index.html",
            "/free/a.html": "/free",
            "/paid/full/a.html": "paid",
            "/paid/full/missing.html": "paid",
            "/api/x.json": "/api",
            "/intern/x.txt": "/intern#internal",
            "/dl/small.bin": "/dl",
            "/dl/large.bin": "large",
            "/other.html": "default",
            "/..%2f": "default",
        }
        for _ in range(4):  # the third time a head is known
            assert {target: label(node, target) for target in expected} == expected
            assert label(node, "/api/x.json", "User-Agent: Googlebot/2.1") == "/api#robots"
        wait_for(lambda: len(node.log()) == 44, "the log")
        logged = {str(line["path"]): line["class"] for line in node.log() if line["path"] != "/api/x.json"}
        del expected["/api/x.json"]
        assert {path: logged[path] for path in expected if path in logged} == {
            path: name for path, name in expected.items() if path in logged
        }
        assert len({line["policy"] for line in node.log()}) == 1
        assert all(len(str(line["policy"])) == 16 for line in node.log())
        assert node.metric("qosweb_requests_total", **{"class": "paid", "outcome": "served"}) == 8
        assert node.metric("qosweb_requests_total", **{"class": "/api#robots", "outcome": "served"}) == 4
        assert node.metric("qosweb_policy_info", hash=str(node.log()[0]["policy"])) == 1
        status = json.loads(node.admin("/status"))
        assert status["classes"]["/free"]["served"] == 4
        assert status["policy"]["file"] == str(spec)


def test_a_page_in_two_classes_is_labelled_right_in_turn(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node, node.connect() as connection:
        for _ in range(6):
            assert connection.get("/api/x.json").headers["qos-class"] == "/api"
            assert connection.get("/api/x.json", "User-Agent: a bot").headers["qos-class"] == "/api#robots"


def test_without_a_specification_there_is_one_class_and_no_field(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        for _ in range(3):
            assert "qos-class" not in node.get("/free/a.html").headers
        wait_for(lambda: len(node.log()) == 3, "the log")
        assert {line["class"] for line in node.log()} == {"default"}


def test_what_a_client_accessed_changes_its_class(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        before = label(node, "/gift/a.html")
        assert label(node, "/free/a.html") == "/free"
        assert (before, label(node, "/gift/a.html")) == ("/gift", "/gift#4")


def test_status_says_which_constraints_are_in_force(site: Path, spec: Path, tmp_path: Path) -> None:
    timed = "accessed(</free>) within 30s => </shop>.server_resource > 10%"
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        before = json.loads(node.admin("/status"))["policy"]["in_force"]
        assert "</index.html>.available = always" in before
        assert timed not in before
        node.get("/free/a.html")
        wait_for(
            lambda: timed in json.loads(node.admin("/status"))["policy"]["in_force"] or None, "the machine to know"
        )


def test_a_shadow_counts_and_changes_nothing(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        for _ in range(5):
            assert label(node, "/other.html") == "default"
        label(node, "/free/a.html")
        assert node.metric("qosweb_shadow_requests_total", statement="shadow </other>.num_requests < 5") == 5
        never = "shadow load > 100000% => </other>.num_requests < 3"
        assert node.metric("qosweb_shadow_requests_total", statement=never) == 0
        order = "shadow </other> before </free>"
        assert node.metric("qosweb_shadow_requests_total", statement=order) == 6


def test_links_are_followed_when_pages_change(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        assert label(node, "/near.html") == "default#links"
        assert label(node, "/far.html") == "default"
        (site / "hub" / "index.html").write_text('<a href="/far.html">far</a>')
        wait_for(lambda: label(node, "/far.html") == "default#links" or None, "the new link to be seen")
        assert label(node, "/near.html") == "default"


@pytest.mark.parametrize(
    "text", ["</a>.server_resource < lots", "</a>.server_resource > 60%\n</b>.server_resource > 60%"]
)
def test_a_bad_specification_is_refused(site: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.webqos"
    path.write_text(text)
    done = run_command("serve", "--root", str(site), "--spec", str(path), "--listen", "127.0.0.1:0", "--admin", "none")
    assert done.returncode == 2
    assert f"{path}:" in done.stderr
    assert ": error: " in done.stderr
    assert f"qosweb: error: {path}: 1 error; nothing was done" in done.stderr


def test_a_missing_specification_is_refused(site: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.webqos")
    done = run_command("serve", "--root", str(site), "--spec", missing, "--listen", "127.0.0.1:0", "--admin", "none")
    assert (done.returncode, done.stderr) == (2, f"qosweb: error: {missing}: No such file or directory\n")


def test_reload_changes_the_policy_or_nothing(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node, node.connect() as connection:
        for _ in range(3):
            assert connection.get("/free/a.html").headers["qos-class"] == "/free"
        spec.write_text("</free>.available = always as readers")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: connection.get("/free/a.html").headers["qos-class"] == "readers" or None, "the new policy")
        spec.write_text("nonsense")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("not reloaded" in line for line in node.stderr) or None, "the refusal")
        assert connection.get("/free/a.html").headers["qos-class"] == "readers"
        assert node.stop() == 0
    policies = [str(line["policy"]) for line in node.log()]
    assert len(set(policies)) == 2
    assert policies == sorted(policies, key=policies.index)
    events = [line for line in node.log_lines() if line.get("event") == "policy"]
    assert [(line["event"], line["policy"], line["text"]) for line in events] == [
        ("policy", policies[0], SPEC),
        ("policy", policies[-1], "</free>.available = always as readers"),
    ]


def test_each_policy_has_an_event_before_its_requests(site: Path, spec: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--spec", str(spec), "--name", "n7") as node, node.connect() as connection:
        connection.get("/other.html")
        reload(node, times=1)
        connection.get("/other.html")
        spec.write_text(f"# looked at by night\n{SPEC}")
        reload(node, times=2)
        connection.get("/other.html")
        assert node.stop() == 0
    lines = [line for line in node.log_lines() if line.get("event") not in ("capacity", "resource")]
    # The same text again is no event; the same model with another comment is one.
    assert ["event" in line for line in lines] == [True, False, False, True, False]
    assert len({line["policy"] for line in lines}) == 1
    assert set(lines[0]) == {"event", "ts", "node", "view", "policy", "index", "text"}
    assert (lines[0]["node"], lines[0]["index"], lines[0]["text"]) == ("n7", None, SPEC)
    times = [float(str(line["ts"])) for line in lines]
    assert times == sorted(times)


def test_no_event_without_a_specification_or_in_the_combined_form(site: Path, spec: Path, tmp_path: Path) -> None:
    for number, options in enumerate(([], ["--spec", str(spec), "--access-log-format", "combined"])):
        scratch = tmp_path / str(number)
        scratch.mkdir()
        with RunningNode(site, scratch, *options) as node:
            node.get("/other.html")
            reload(node, times=1)
            node.get("/other.html")
            assert node.stop() == 0
        lines = node.access_log.read_text().splitlines()
        assert len(lines) == 2
        assert not any('"event"' in line for line in lines)
