"""The load generator against a real node: its results agree with the node's access log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from loadgen.cli import main
from loadgen.trace.files import read_trace
from loadgen.trace.request import TraceRequest
from tests.loadgen.runs import evenly, run
from tests.support.clusters import KIB, make_site
from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.tls import write_certificate
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("node")
    (write_site(folder / "site") / "folder").mkdir()
    (folder / "site" / "folder" / "index.html").write_text("in a folder")
    with RunningNode(folder / "site", folder) as running:
        yield running


def test_log_and_results_agree(node: RunningNode, tmp_path: Path) -> None:
    pages = ["/page.html", "/", "/thick.html", "/folder", "/nothing"]
    trace = [TraceRequest(at / 400, pages[at % 5], "GET", "AB"[at % 2]) for at in range(200)]
    before = len(node.log())
    ran = run(tmp_path, trace, "--target", node.url)
    assert ran.outcomes == {"accepted": 160, "failed": 40}
    assert ran.causes == {"status 404": 40}
    assert ran.summary["all"]["redirected"] == 40  # the folder without its slash
    wait_for(lambda: len(node.log()) >= before + 240, "the log")
    logged = Counter((str(entry["path"]), entry["status"]) for entry in node.log()[before:])
    assert logged == {
        ("/page.html", 200): 40, ("/", 200): 40, ("/thick.html", 200): 40, ("/nothing", 404): 40,
        ("/folder", 301): 40, ("/folder/", 200): 40,
    }  # fmt: skip
    sizes = {result["url"]: result.get("bytes") for result in ran.results}
    assert sizes["/thick.html"] == 60_003


def test_a_large_file_arrives_whole_and_is_not_held(node: RunningNode, tmp_path: Path) -> None:
    ran = run(tmp_path, evenly(3, 10, "/large.bin"), "--target", node.url, "--timeout", "60s")
    assert [result["bytes"] for result in ran.results] == [24 << 20] * 3


def test_the_log_becomes_a_trace_that_runs(node: RunningNode, tmp_path: Path) -> None:
    run(tmp_path / "first", evenly(50, 100, "/page.html"), "--target", node.url)
    wait_for(lambda: len(node.log()) >= 50, "the log")
    made = tmp_path / "again.jsonl"
    log = tmp_path / "access.log"
    text = node.access_log.read_bytes()
    log.write_bytes(text[: text.rfind(b"\n") + 1])  # the node may still write
    assert main(["trace", "--from-log", str(log), "--out", str(made), "--speed", "20"]) == 0
    requests = list(read_trace(str(made)))
    assert len(requests) == sum(b'"event"' not in line for line in log.read_bytes().splitlines())
    assert {request.class_name for request in requests} == {"default"}
    ran = run(tmp_path / "second", requests, "--target", node.url)
    assert ran.summary["all"]["requests"] == len(requests)


def test_assertions_set_the_exit_code(node: RunningNode, tmp_path: Path) -> None:
    good = run(
        tmp_path / "good", evenly(50, 200, "/page.html"), "--target", node.url,
        "--assert", "A.served>=99.9%", "--assert", "p99<20s", "--assert", "A.failed==0",
    )  # fmt: skip
    bad = run(
        tmp_path / "bad", evenly(50, 200, "/nothing"), "--target", node.url,
        "--assert", "A.served>=99.9%", "--assert", "requests==50",
    )  # fmt: skip
    assert (good.code, bad.code) == (0, 1)
    assert [verdict["holds"] for verdict in bad.summary["assertions"]] == [False, True]


SPEC = """\
set lifetime = 300ms
set channel = 1MB in 1s
</b>.num_requests < 2
cookie("plan") = "free" => </a>.num_requests < 2
"""


def test_denials_have_the_class_and_the_reason_that_the_node_says(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"a": KIB, "b": KIB, "c": KIB * KIB})
    (tmp_path / "site.webqos").write_text(SPEC)
    with RunningNode(site, tmp_path, "--spec", str(tmp_path / "site.webqos"), "--capacity", "2MB/s") as node:
        # The trace says nothing of classes for /b: only the node knows.
        trace = [TraceRequest(at / 400, "/b/page") for at in range(40)]
        trace += [TraceRequest(0.1 + at / 400, "/a/page", "GET", "free", {"Cookie": "plan=free"}) for at in range(40)]
        trace += [TraceRequest(0.2 + at / 400, "/c/page", "GET", "large") for at in range(40)]
        ran = run(tmp_path / "run", trace, "--target", node.url)
        wait_for(lambda: len(node.log()) >= len(trace), "the log")
        logged = Counter(str(entry["class"]) for entry in node.log() if entry["status"] in (429, 503))
    denied = [result for result in ran.results if result["outcome"] == "denied"]
    assert {result["outcome"] for result in ran.results} == {"accepted", "denied"}
    assert Counter(str(result["answered_as"]) for result in denied) == logged
    pages = {page: [one for one in denied if one["url"] == f"/{page}/page"] for page in "abc"}
    assert {(one["status"], one["reason"]) for one in pages["a"]} == {(429, "denied; reason=client_bound")}
    assert {(one["status"], one["reason"]) for one in pages["b"]} == {(503, "denied; reason=bound")}
    assert {one["status"] for one in pages["c"]} == {503}
    assert {one["reason"] for one in pages["c"]} <= {"denied; reason=cannot_be_reached", "denied; reason=lifetime"}
    (class_of_b,) = {one["answered_as"] for one in pages["b"]}
    by_class = ran.summary["classes"]
    assert by_class[class_of_b]["denied_by_reason"] == {"denied; reason=bound": len(pages["b"])}
    assert by_class["free"]["denied_by_reason"] == {"denied; reason=client_bound": len(pages["a"])}
    assert by_class["large"]["outcomes"]["denied"] == len(pages["c"]) > 0


def test_tls(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    with RunningNode(
        write_site(tmp_path / "site"), tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)
    ) as node:
        trace = evenly(20, 100, "/page.html")
        trusted = run(tmp_path / "a", trace, "--target", f"https://localhost:{node.port}", "--ca", str(certificate))
        refused = run(tmp_path / "b", trace, "--target", node.url)
        trusting = run(tmp_path / "c", trace, "--target", node.url, "--insecure")
        plain = run(tmp_path / "d", trace, "--target", f"http://127.0.0.1:{node.port}", "--timeout", "5s")
    assert trusted.outcomes == trusting.outcomes == {"accepted": 20}
    assert trusted.summary["read_lateness_ms"]["count"] == 0  # nobody knows when what was encrypted came
    assert all("read_late_us" not in result for result in trusted.results)
    assert all(cause.startswith("certificate not accepted") for cause in refused.causes)
    assert plain.outcomes == {"failed": 20}
