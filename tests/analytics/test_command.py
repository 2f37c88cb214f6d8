"""``qosweb analyze`` with invalid options: one line on standard error, exit code 2, and Spark is not started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["nowhere.log"], "nowhere.log: no such file or folder"),
        (["LOG", "--window", "1.5s"], "--window 1.5s: must be whole seconds, such as 10s"),
        (["LOG", "--window", "10s", "--slot", "3s"], "--window 10s: must be a multiple of --slot 3s"),
        (["LOG", "--tolerance", "lots"], "--tolerance: "),
        (["LOG", "--slack", "1 banana"], "--slack: '1 banana' is not a duration"),
        (["LOG", "--capacity", "fast"], "--capacity: "),
        (["LOG", "--spec", "nowhere.webqos"], "nowhere.webqos: No such file"),
        (["LOG", "--out", "LOG"], "--out LOG: File exists"),
        (
            ["LOG", "--master", "mesos://nowhere"],
            "--master mesos://nowhere: expected a form such as local[*], spark://host:7077",
        ),
        (["LOG", "--windows", "3s"], "unknown option '--windows'; did you mean '--window'?"),
        (["LOG", "--each", "--keep-lines"], "--each cannot be combined with --follow or --keep-lines"),
        (["LOG", "LOG", "--each"], "--each: two logs have the same name; write NAME=LOG"),
        (["LOG", "--follow", "--out", "OUT", "--every", "1ms"], "--every 1ms: must be from 0.2 s to 3600 s"),
        ([], "the following arguments are required: LOG"),
    ],
)
def test_bad_input_is_one_line(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text('{"ts":1}\n')
    given = {"LOG": str(log), "OUT": str(tmp_path / "out")}
    assert main(["analyze", *(given.get(option, option) for option in options)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said.replace("LOG: ", f"{log}: ") in err if "required" not in said else said in err
