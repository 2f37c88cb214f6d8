"""The commands check, fmt, explain and shares, run through the command line."""

import json
import re
from pathlib import Path

import pytest

from qosweb.cli import main
from tests.support.nodes import run_command

SPEC = """\
let night = time in 22:00..06:00
let vip = cookie("vip")
</index.html>.available = always
</free>.server_resource < 10%
night => </free>.server_resource < 60%
</paid>.server_resource > 50%
vip => </paid>.response_time < 200ms
shadow </free/x>.num_requests < 5
</paid> before </free>
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "site.webqos"
    path.write_text(SPEC)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_check_prints_nothing_for_a_correct_file(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", spec) == (0, "", "")


def test_check_of_several_files(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.webqos"
    bad.write_text("</a>.sped < 3\n</b>.server_resource < 100%\n")
    code, out, err = run(capsys, "check", spec, str(bad))
    assert (code, err) == (1, "")
    assert out.startswith(f"{bad}:1:6: error: unknown attribute 'sped'\n")
    assert out.endswith("1 error, 0 warnings\n"), "rules are checked against each other only if each compiles"


def test_check_strict_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "warn.webqos"
    path.write_text("</b>.server_resource < 100%\n")
    assert run(capsys, "check", str(path))[0] == 0
    code, out, _ = run(capsys, "check", "--strict", "--json", str(path))
    said = json.loads(out)
    assert (code, said["errors"], said["warnings"]) == (1, 0, 1)
    assert said["diagnostics"][0]["line"] == 1
    assert said["diagnostics"][0]["message"].startswith("this upper bound has no effect")


def test_check_of_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", str(tmp_path))[0] == 2
    assert run(capsys, "check", str(tmp_path / "x"))[0] == 2
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00</a>")
    code, out, _ = run(capsys, "check", str(binary))
    assert code == 1
    assert f"{binary}:1:1: error: the file is not UTF-8" in out


def test_check_reads_standard_input() -> None:
    done = run_command("check", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_fmt_writes_the_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("  </a>.server_resource>=10% #c\n\n\n\n</b>.available=always;</c>.available=always")
    path.chmod(0o640)
    assert run(capsys, "fmt", "--check", str(path))[0] == 1
    assert run(capsys, "fmt", str(path)) == (0, "", "")
    canonical = "</a>.server_resource > 10%  #c\n\n</b>.available = always\n</c>.available = always\n"
    assert path.read_text() == canonical
    assert path.stat().st_mode & 0o777 == 0o640
    assert run(capsys, "fmt", "--check", str(path)) == (0, "", "")
    assert run(capsys, "fmt", "--stdout", str(path)) == (0, canonical, "")
    assert json.loads(run(capsys, "fmt", "--json", str(path))[1]) == {"files": [{"file": str(path), "changed": False}]}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.webqos"]


def test_fmt_leaves_a_file_with_mistakes_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("  </a>.server_resource >> 3\n")
    code, out, err = run(capsys, "fmt", str(path))
    assert (code, out) == (1, "")
    assert ":1:25: error: " in err
    assert path.read_text() == "  </a>.server_resource >> 3\n"


def test_explain_says_which_class_and_why(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", spec, "http://www.x.com/free/x?q=1", "--at", "23:30")
    assert code == 0
    assert out == (
        "www.x.com/free/x is in the class '/free'\n"
        "  the page is covered by: /free\n"
        "\n"
        "  - line 4: </free>.server_resource < 10%\n"
        "            overridden: line 5 has a condition that holds, for the same pages and attribute\n"
        "  * line 5: night => </free>.server_resource < 60%\n"
        "            in force\n"
        "  ~ line 8: shadow </free/x>.num_requests < 5\n"
        "            shadow: counted, without effect\n"
        "  * line 9: </paid> before </free>\n"
        "            in force\n"
        "\n"
        "share if every class asks for more than it gets: 0%\n"
        "it may wait 10000 ms\n"
        "it comes after: /paid, /paid#vip\n"
    )


def test_explain_names_a_shadow_order_for_all_its_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("</b>.num_requests < 5\n\nshadow method = GET => </a> before </b>\n")
    order = {
        "line": 3,
        "text": "shadow method = GET => </a> before </b>",
        "state": "shadow",
        "why": "counted, without effect",
    }
    for page, names in (("/a", True), ("/b/x", True), ("/c", False)):
        said = json.loads(run(capsys, "explain", str(path), page, "--json")[1])
        assert (order in said["constraints"]) is names
        assert said["before"] == said["after"] == []
    assert (
        order not in json.loads(run(capsys, "explain", str(path), "/a", "--method", "HEAD", "--json")[1])["constraints"]
    )


def test_explain_as_json(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(run(capsys, "explain", spec, "/paid/a", "--cookie", "vip=1", "--json")[1])
    assert said["class"] == "/paid#vip"
    assert said["response_time_ms"] == 200
    assert [rule["line"] for rule in said["constraints"]] == [6, 7, 9]
    assert json.loads(run(capsys, "explain", spec, "/", "--json")[1])["always"] is True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("/../x",), "/../x: not the address of a page: dot segment"),
        (("/x", "--at", "25:00"), "--at: there is no time of day '25:00' (from 00:00 to 24:00)"),
        (("/x", "--client", "me"), "--client: 'me' is not an address (such as 10.0.0.7)"),
        (("/x", "--header", "none"), "--header 'none': write it as 'Name: value'"),
        (("/x", "--nodes", "0"), "--nodes: a cluster has at least one node"),
        (("/x", "--sise", "3"), "unknown option '--sise'; did you mean '--size'?"),
    ],
)
def test_explain_refuses(spec: str, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explain", spec, *options) == (2, "", f"qosweb: error: {said}\n")


def test_explain_of_a_bad_file_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.webqos"
    path.write_text("nonsense\n")
    code, out, err = run(capsys, "explain", str(path), "/")
    assert (code, out) == (2, "")
    assert err.startswith(f"{path}:1:9: error: ")
    assert err.endswith(f"qosweb: error: {path}: 1 error; nothing was done\n")


def test_shares_as_a_table_with_bars(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "shares", spec, "--at", "12:00", "--demand", "/paid=80%,/free=30%,default=5%")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split() for line in out.splitlines()}
    assert rows["/paid"][1:4] == ["80%", "80%", "█" * 24]
    assert rows["/free"][1:4] == ["30%", "10%", "15%"]
    assert rows["default"][1:3] == ["5%", "5%"]


def test_shares_as_json_with_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("</a>.num_bytes < 2MB/s\n</b>.num_requests > 100 * nodes\n")
    arguments = ("shares", str(path), "--json", "--demand", "/a=100%", "--demand", "/b=50")
    code, _, err = run(capsys, *arguments)
    assert (code, err) == (2, "qosweb: error: --demand '50' is a rate: give --capacity, or write the demand in %\n")
    said = json.loads(run(capsys, *arguments, "--capacity", "10MB/s", "--nodes", "2")[1])
    assert said["capacity_bytes_per_s"] == 20 << 20
    classes = {row["class"]: row for row in said["classes"]}
    assert classes["/a"]["share"] == 0.1
    assert classes["/b"]["share"] == pytest.approx(50 * 16 * 1024 / (20 << 20), abs=1e-5)


def test_shares_and_explain_say_that_rates_need_a_capacity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("</a>.num_bytes < 2MB/s\n")
    assert "they need --capacity" in run(capsys, "shares", str(path))[2]
    assert "they need --capacity" in run(capsys, "explain", str(path), "/a")[2]
    assert run(capsys, "explain", str(path), "/a", "--capacity", "20MB/s")[2] == ""
    assert "there is no class '/aa'; did you mean '/a'?" in run(capsys, "shares", str(path), "--demand", "/aa=5%")[2]


def test_shares_with_shadow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("</a>.server_resource > 10%\nshadow </a>.server_resource < 20%\n")
    plain = json.loads(run(capsys, "shares", str(path), "--json")[1])
    bound = json.loads(run(capsys, "shares", str(path), "--json", "--with-shadow")[1])
    assert (plain["classes"][0]["share"], bound["classes"][0]["share"]) == (0.5, 0.2)


def test_shares_draw_a_picture(spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "shares.png"
    assert run(capsys, "shares", spec, "--png", str(target))[0] == 0
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 5_000
    code, _, err = run(capsys, "shares", spec, "--png", str(tmp_path / "no" / "x.png"))
    assert code == 2
    assert err.endswith("x.png: No such file or directory\n")


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("HTTP://WWW.x.com/paid", "www.x.com/paid is in the class '/paid'"),
        ("/paid/caf\u00e9 x#top", "/paid/caf\u00e9 x is in the class '/paid'"),
        ("[::1]:80/paid", "[::1]:80/paid is in the class '/paid'"),
        ("paid", "/paid is in the class '/paid'"),
    ],
)
def test_addresses_in_all_accepted_forms(spec: str, asked: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", spec, asked)
    assert (code, out.splitlines()[0]) == (0, first)


@pytest.mark.parametrize("asked", ["", "ftp://x.com/y", "bad host/x", "http://", "[::g]/x", "/../x", "x.com/%zz"])
def test_invalid_addresses_are_refused(spec: str, asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "explain", spec, asked)
    assert (code, out) == (2, "")
    assert "not the address of a page" in err


def test_demand_of_classes_with_commas_and_equals_signs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("</a,b>.server_resource < 10%\n</c=d>.server_resource < 5%\n")
    code, out, _ = run(capsys, "shares", str(path), "--demand", "/a,b=30%,/c=d=20%", "--demand", "default=3%", "--json")
    assert code == 0
    assert {one["class"]: one["demand"] for one in json.loads(out)["classes"]} == {
        "/a,b": 0.3, "/c=d": 0.2, "default": 0.03
    }  # fmt: skip


def test_a_capacity_of_zero_is_refused(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "shares", spec, "--capacity", "0MB/s")
    assert (code, err) == (2, "qosweb: error: --capacity: '0MB/s' must be more than 0\n")


@pytest.mark.parametrize("command", [["serve"], ["shares", "FILE"], ["explain", "FILE", "/a"]])
def test_a_capacity_has_a_unit(command: list[str], spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [spec if word == "FILE" else word for word in command]
    code, _, err = run(capsys, *words, "--capacity", "2")
    assert code == 2
    assert "--capacity" in err
    assert "'2' has no unit (such as 2MB/s)" in err


def test_explain_knows_the_capacity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.webqos"
    path.write_text("</a>.num_bytes < 100\n")
    assert "share if every class asks for more than it gets: 50%" in run(capsys, "explain", str(path), "/a")[1]
    bounded = run(capsys, "explain", str(path), "/a", "--capacity", "1MB/s")[1]
    assert "share if every class asks for more than it gets: 9.766%" in bounded


def test_at_is_in_the_zone_of_the_specification(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.webqos"
    path.write_text("set timezone = Asia/Tokyo\ntime in 22:00..06:00 => </a>.server_resource < 10%\n")
    assert "in force" in run(capsys, "explain", str(path), "/a", "--at", "23:30")[1]
    assert "not now" in run(capsys, "explain", str(path), "/a", "--at", "14:30")[1]


def test_check_in_a_terminal_says_that_there_are_no_problems(
    spec: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, "check", spec) == (0, "", "")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(capsys, "check", spec, spec) == (0, "2 files: no problems found\n", "")


def test_shares_say_always(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.webqos"
    path.write_text("</pay>.available = always\n</shop>.server_resource > 30%\n")
    lines = run(capsys, "shares", str(path))[1].splitlines()
    assert lines[1].split()[:4] == ["/pay", "0%", "always", "0%"]
    assert "30%" in lines[2].split()


def keys_in(said: object, into: str = "") -> set[str]:
    """``.key`` of the objects in lists, ``key`` of the outermost."""
    found: set[str] = set()
    for key, value in said.items() if isinstance(said, dict) else ():
        found.add(into + key)
        for item in value if isinstance(value, list) and not into else ():
            found |= keys_in(item, ".")
    return found


def test_the_json_of_every_command_is_what_is_documented(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[2] / "docs" / "reference" / "specifications.md").read_text("utf-8")
    sections = re.findall(r"^`qosweb (\w+) --json.*?`$(.*?)(?=^`qosweb|\Z)", readme, re.MULTILINE | re.DOTALL)
    documented = {
        name: {
            key for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for key in re.findall(r"`([.\w]+)`", row)
        }
        for name, text in sections
    }
    bad = tmp_path / "bad.webqos"
    bad.write_text("</a>.sped < 3\n")
    worse = tmp_path / "worse.webqos"
    worse.write_text("</a\n")
    said = {
        "check": run(capsys, "check", "--json", str(bad))[1],
        "explain": run(capsys, "explain", "--json", spec, "/paid")[1],
        "fmt": run(capsys, "fmt", "--check", "--json", spec, str(worse))[1],
        "shares": run(capsys, "shares", "--json", spec)[1],
    }
    assert documented.keys() == said.keys()
    for name, text in said.items():
        inner = {".line", ".text", ".state", ".why"} if name == "explain" else set()
        assert keys_in(json.loads(text)) - inner == documented[name], name
