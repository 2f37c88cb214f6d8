"""A replay sends and judges as the recorded run did; options override it; secrets are in no file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from loadgen.cli import main
from loadgen.results import outcomes as o
from loadgen.results.results import suggests_secret
from tests.loadgen.runs import evenly, replay, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.tls import write_certificate

if TYPE_CHECKING:
    from pathlib import Path

_ONWARD = b"HTTP/1.1 307 Go\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"


def _ok(talk: Talk) -> None:
    talk.send(OK)


def _onward(talk: Talk) -> None:
    talk.send(OK if talk.path == "/there" else _ONWARD)


def test_headers_are_sent_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MisbehavingServer(_ok) as server:
        options = ["--header", "X-Group: blue", "--header", "Accept: text/html"]
        first = run(tmp_path / "first", evenly(3, 100), "--target", server.url, *options)
        seen = list(server.heads)
        server.heads.clear()
        capsys.readouterr()
        again = replay(tmp_path / "again", first.results_file)
        assert sorted(server.heads) == sorted(seen)
        assert "--header 'X-Group: blue'" in capsys.readouterr().err
        server.heads.clear()
        third = replay(tmp_path / "third", again.results_file, "--header", "x-group: red")
        assert all(b"x-group: red" in head and b"blue" not in head for head in server.heads)
        assert all(b"Accept: text/html" in head for head in server.heads)
    assert third.facts["headers"] == {"x-group": "red", "Accept": "text/html"}


def test_redirects_are_followed_as_they_were(tmp_path: Path) -> None:
    with MisbehavingServer(_onward) as server:
        first = run(tmp_path / "first", evenly(3, 100), "--target", server.url, "--redirects", "0")
        again = replay(tmp_path / "again", first.results_file)
        other = replay(tmp_path / "other", first.results_file, "--redirects", "1")
    assert first.outcomes == again.outcomes == {"redirected": 3}
    assert other.outcomes == {"accepted": 3}


def test_patience_and_limits_are_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--timeout", "300ms", "--connect-timeout", "7s", "--send-within", "1500ms", "--connections", "3"]
    with MisbehavingServer(Talk.hang) as server:
        first = run(tmp_path / "first", evenly(2, 100), "--target", server.url, *told, "--body-max", "1KB")
        capsys.readouterr()
        again = replay(tmp_path / "again", first.results_file)
    assert first.causes == again.causes == {o.TIMEOUT: 2}
    kept = {"timeout_s": 0.3, "connect_timeout_s": 7.0, "send_within_s": 1.5, "connections": 3, "body_max": 1024}
    assert {name: again.facts[name] for name in kept} == {name: first.facts[name] for name in kept} == kept
    expected = "--connections 3 --timeout 0.3s --connect-timeout 7s --send-within 1.5s --body-max 1024"
    assert f"note: options taken over from {first.results_file}: {expected}\n" in capsys.readouterr().err


def test_default_options_are_not_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MisbehavingServer(_ok) as server:
        first = run(tmp_path / "first", evenly(2, 100), "--target", server.url)
        replay(tmp_path / "again", first.results_file)
    assert "note" not in capsys.readouterr().err


def test_certificates_are_trusted_as_they_were_but_not_of_others(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    site = write_site(tmp_path / "site")
    with RunningNode(site, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as node:
        first = run(tmp_path / "first", evenly(2, 100, "/page.html"), "--target", node.url, "--insecure")
        again = replay(tmp_path / "again", first.results_file)
        other = replay(tmp_path / "other", first.results_file, "--target", node.url)
    assert first.outcomes == again.outcomes == {"accepted": 2}
    assert other.outcomes == {"failed": 2}


def test_secrets_are_in_no_file_and_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = ["--header", "Authorization: Bearer s3cr3t", "--header", "Cookie: id=s3cr3t"]
    with MisbehavingServer(_ok) as server:
        first = run(tmp_path / "first", evenly(2, 100), "--target", server.url, *secret, "--header", "X-Group: blue")
        assert all(b"Bearer s3cr3t" in head and b"id=s3cr3t" in head for head in server.heads)
        told = capsys.readouterr().err
        assert "note: Authorization, Cookie: the name suggests a secret" in told
        assert str(first.results_file) in told
        server.heads.clear()
        replay(tmp_path / "again", first.results_file)
        assert not any(b"Authorization" in head or b"Cookie" in head for head in server.heads)
        assert all(b"X-Group: blue" in head for head in server.heads)
        assert (
            f"{first.results_file} had the headers Authorization, Cookie, whose values are not recorded"
            in capsys.readouterr().err
        )
        server.heads.clear()
        replay(tmp_path / "third", first.results_file, *secret)
        assert all(b"Bearer s3cr3t" in head for head in server.heads)
        assert "had Authorization" not in capsys.readouterr().err
    assert first.facts["headers_left_out"] == ["Authorization", "Cookie"]
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(written) >= 6
    assert not any(b"s3cr3t" in file.read_bytes() for file in written)


@pytest.mark.parametrize("name", ["authorization", "COOKIE", "Proxy-Authorization", "X-Api-Key", "X-Auth", "My-Token"])
def test_names_that_suggest_a_secret(name: str) -> None:
    assert suggests_secret(name)


@pytest.mark.parametrize("name", ["Accept", "User-Agent", "X-Author", "X-Group", "If-None-Match"])
def test_names_that_do_not_suggest_a_secret(name: str) -> None:
    assert not suggests_secret(name)


def test_a_file_with_a_bad_header_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MisbehavingServer(_ok) as server:
        first = run(tmp_path / "first", evenly(2, 100), "--target", server.url, "--header", "X-Group: blue")
        text = first.results_file.read_text().replace('"blue"', '"blue\\r\\nX-Evil: 1"')
        first.results_file.write_text(text)
        capsys.readouterr()
        assert main(["replay", str(first.results_file)]) == 2
    assert "results.jsonl:1: header 'X-Group' has a value with control characters" in capsys.readouterr().err
