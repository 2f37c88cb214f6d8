"""Finding log files and detecting their format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from qosweb.analytics.read.sources import Sources, find, size
from qosweb.errors import UsageError

JSON = '{"ts":1}\n'
COMBINED = '1.2.3.4 - - [16/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"\n'


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    day = tmp_path / "day=2026-11-16"
    day.mkdir()
    (day / "n1.log").write_text(JSON)
    (tmp_path / "n2.log.gz").write_bytes(gzip.compress(b"cut off\n" + JSON.encode()))
    (tmp_path / "old.txt").write_text(COMBINED)
    (tmp_path / "part.parquet").write_bytes(b"PAR1...")
    (tmp_path / "empty.log").write_text("\n")
    (tmp_path / ".hidden").write_text(JSON)
    (tmp_path / "_SUCCESS").write_text("")
    return tmp_path


def test_a_folder_is_all_its_files(logs: Path) -> None:
    found = find([str(logs)])
    assert [Path(name).name for name in found.json] == ["n1.log", "n2.log.gz"]
    assert [Path(name).name for name in found.combined] == ["old.txt"]
    assert [Path(name).name for name in found.parquet] == ["part.parquet"]
    assert (size(found) or 0) > 100


def test_globs_and_files_name_each_file_once(logs: Path) -> None:
    found = find([str(logs / "**/n*"), str(logs / "n2.log.gz")])
    assert [Path(name).name for name in found.json] == ["n1.log", "n2.log.gz"]


def test_remote_addresses_are_left_to_spark() -> None:
    assert find(["hdfs://host/logs"]) == Sources(json=("hdfs://host/logs",))
    assert size(Sources(json=("hdfs://host/logs",))) is None


def test_mistakes_say_what_is_wrong(logs: Path) -> None:
    (logs / "broken.gz").write_bytes(b"not gzip")
    for name, said in (
        ("nothing.log", "no such file or folder"),
        ("x*.log", "no such file or folder"),
        ("empty.log", "no log lines found"),
        ("broken.gz", "cannot be decompressed"),
    ):
        with pytest.raises(UsageError, match=said):
            find([str(logs / name)])
