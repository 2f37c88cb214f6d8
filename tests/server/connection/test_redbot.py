"""REDbot, an HTTP conformance checker, finds no error in the responses of a running node."""

import gzip
import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.nodes import RunningNode

TIMEOUT_S = 60


@dataclass(frozen=True)
class Subject:
    """``supports``: the features that REDbot must find working."""

    target: str
    status: int = 200
    supports: tuple[str, ...] = ("ranges", "If-None-Match", "If-Modified-Since")


SUBJECTS = (
    Subject("/"),
    Subject("/style.css", supports=("ranges", "If-None-Match", "If-Modified-Since", "gzip")),
    Subject("/picture.png"),
    Subject("/script.js"),
    Subject("/data.json"),
    Subject("/large.bin"),
    Subject("/large.css", supports=("ranges", "If-None-Match", "If-Modified-Since", "gzip")),
    Subject("/empty.txt", supports=("If-None-Match", "If-Modified-Since")),
    Subject("/directory/", supports=("ranges", "If-None-Match")),
    Subject("/directory", 301, ()),
    Subject("/none.html", 404, ()),
    Subject("/%2e%2e/", 400, ()),
)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """Target to report. One REDbot process checks all targets."""
    scratch = tmp_path_factory.mktemp("redbot")
    with RunningNode(write_site(scratch / "site"), scratch) as node:
        urls = [node.url + subject.target for subject in SUBJECTS]
        run = subprocess.run(
            [sys.executable, "-m", "tests.server.connection.redbot_report", *urls],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert run.returncode == 0, run.stderr
        return {url.removeprefix(node.url): report for url, report in json.loads(run.stdout).items()}


def write_site(root: Path) -> Path:
    root.mkdir()
    numbers = random.Random(1)
    (root / "index.html").write_text('<!doctype html>\n<html lang="en">\n<title>Title</title>\n<p>' + "text " * 300)
    css = b"".join(b".c%d { color: #%06x }\n" % (n, numbers.randrange(1 << 24)) for n in range(400))
    for name, content in (("style.css", css), ("large.css", css * 200)):
        (root / name).write_bytes(content)
        (root / f"{name}.gz").write_bytes(gzip.compress(content))
    (root / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + numbers.randbytes(20_000))
    (root / "script.js").write_text("console.log(1);\n" * 100)
    (root / "data.json").write_text(json.dumps({"numbers": list(range(500))}))
    (root / "large.bin").write_bytes(numbers.randbytes(3 << 20))
    (root / "empty.txt").write_bytes(b"")
    (root / "directory").mkdir()
    (root / "directory" / "index.html").write_text("<!doctype html>\n<title>Index</title>\n<p>index")
    return root


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.target)
def test_redbot_finds_no_error(reports: dict[str, dict[str, object]], subject: Subject) -> None:
    report = reports[subject.target]
    notes = report["notes"]
    assert isinstance(notes, list)
    errors = [text for level, text in notes if level == "bad"]
    warnings = [text for level, text in notes if level == "warning"]
    assert notes, "REDbot said nothing at all"
    assert report["status"] == subject.status
    assert errors == [], f"warnings besides: {warnings}"


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.target)
def test_redbot_finds_what_the_server_supports(reports: dict[str, dict[str, object]], subject: Subject) -> None:
    supports = reports[subject.target]["supports"]
    assert isinstance(supports, dict)
    assert {name: supports[name] for name in subject.supports} == dict.fromkeys(subject.supports, True)
