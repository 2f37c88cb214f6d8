"""Real processes on loopback, killed, stopped and restarted; the specifications check their traces."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from cluster.runtime.api.options import RUNTIME_SETTINGS
from cluster.runtime.net.keys import make_key_file
from tests.cluster.runtime.members import TOP, Cluster, figure
from tests.support.misbehaving import free_port
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.runtime.members import Member

pytestmark = pytest.mark.long


def test_three_processes_order_the_same_entries(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        for name, member in cluster.members.items():
            member.say(f"hello from {name}")
        for name, member in cluster.members.items():
            wait_for(lambda: member.confirmed(f"hello from {name}"), f"{name} sees its entry confirmed")  # noqa: B023
        cluster.quiet().stop().judge()


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_any_member_may_be_killed_under_load(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc").load(4)
        cluster.wait_until_confirmed_at("abc", 50)
        cluster.members[victim].kill()
        rest = "abc".replace(victim, "")
        cluster.wait_for_primary(rest).wait_until_confirmed_at(rest, 50)
        cluster.start(victim)
        cluster.wait_for_primary("abc").wait_until_confirmed_at(rest, 50)
        cluster.quiet().stop().judge()


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_any_idle_member_may_be_killed(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        cluster.members[victim].kill()
        cluster.wait_for_primary("abc".replace(victim, "")).quiet().stop().judge()


def test_five_fall_to_two(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abcde").load(2)
        left = "abcde"
        for victim in "ebd":
            cluster.wait_until_confirmed_at(left, 20)
            cluster.members[victim].kill()
            left = left.replace(victim, "")
            cluster.wait_for_primary(left)
        cluster.wait_until_confirmed_at(left, 20).quiet().stop().judge()


def test_a_stopped_member_is_left_out_and_comes_back(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc").load(2)
        cluster.members["b"].signal(signal.SIGSTOP)
        cluster.wait_for_primary("ac").wait_until_confirmed_at("ac", 20)
        cluster.members["b"].signal(signal.SIGCONT)
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        cluster.quiet().stop().judge()


def test_a_member_that_is_busy_for_300_ms_is_not_suspected(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        ports = {name: free_port() for name in "abc"}
        for name, port in ports.items():
            cluster.start(name, "--metrics", f"127.0.0.1:{port}")
        cluster.wait_for_primary("abc")
        b = cluster.members["b"]
        for attempt in count():
            before = [figure(port, "cluster_suspicions_total") for port in ports.values()]
            began = time.monotonic()
            confirmed_by_all(b, f"here {attempt}")
            b.signal(signal.SIGSTOP)
            time.sleep(0.3)
            b.signal(signal.SIGCONT)
            confirmed_by_all(b, f"here again {attempt}")
            # All received from b between the two: a longer silence is due to the machine.
            if time.monotonic() - began < RUNTIME_SETTINGS.suspect_min:
                break
        assert [figure(port, "cluster_suspicions_total") for port in ports.values()] == before
        cluster.quiet().stop().judge()


def confirmed_by_all(member: Member, text: str) -> None:
    member.say(text)
    wait_for(lambda: member.confirmed(text), f"{member.name} has {text!r} confirmed by all")


def test_suspicion_timeouts_are_configurable(tmp_path: Path) -> None:
    """Silence well over the default timeout is tolerated, silence over the configured bound is not."""
    with Cluster(tmp_path) as cluster:
        patience = ("--heartbeat", "0.1", "--suspect-min", "4", "--suspect-max", "5")
        for name in "abc":
            cluster.start(name, *patience)
        cluster.wait_for_primary("abc")
        a, b = cluster.members["a"], cluster.members["b"]
        before = len(a.stderr)
        began = time.monotonic()
        b.signal(signal.SIGSTOP)
        wait_for(lambda: "no more: b" in a.stderr[before:], "a misses b")
        assert time.monotonic() - began > 3.5
        b.signal(signal.SIGCONT)
        cluster.wait_for_primary("abc").quiet().stop().judge()


def test_a_member_that_leaves_is_gone_at_once(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        cluster.members["c"].say(".leave")
        cluster.wait_for_primary("ab")
        assert cluster.members["c"].process.wait(60) == 0
        cluster.quiet().stop().judge()


@pytest.mark.parametrize("victim", ["a", "c"])
def test_a_member_with_a_disk_resumes_after_kill(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path, durable=True) as cluster:
        cluster.begin("abc").load(4)
        cluster.wait_until_confirmed_at("abc", 50)
        cluster.members[victim].kill()
        rest = "abc".replace(victim, "")
        cluster.wait_for_primary(rest).wait_until_confirmed_at(rest, 50)
        cluster.start(victim, "--load", "4")
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 50)
        cluster.quiet().stop().judge()


def test_all_lose_power_and_resume_from_their_disks(tmp_path: Path) -> None:
    with Cluster(tmp_path, durable=True) as cluster:
        cluster.begin("abc").load(4)
        cluster.wait_until_confirmed_at("abc", 50)
        for member in cluster.members.values():
            member.kill()
        for name in "abc":
            cluster.start(name, "--load", "4")
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 50)
        cluster.quiet().stop().judge()


@pytest.mark.parametrize("durable", [False, True], ids=["volatile", "durable"])
@pytest.mark.parametrize("victim", ["a", "d"], ids=["the lowest", "another"])
def test_a_kill_in_the_middle_of_a_view_change(tmp_path: Path, victim: str, durable: bool) -> None:
    """A member is killed as soon as another one has detected the loss of a third; with a disk it resumes."""
    with Cluster(tmp_path, durable=durable) as cluster:
        cluster.begin("abcde").load(2).wait_until_confirmed_at("abcde", 20)
        witness = cluster.members["b"]
        before = len(witness.stderr)
        cluster.members["e"].kill()
        wait_for(lambda: "start_change" in witness.stderr[before:], "b begins to change the view")
        cluster.members[victim].kill()
        rest = "abcd".replace(victim, "")
        cluster.wait_for_primary(rest).wait_until_confirmed_at(rest, 20)
        if durable:
            cluster.start(victim)
            cluster.wait_for_primary("abcd").wait_until_confirmed_at(rest, 20)
        cluster.quiet().stop().judge()


def test_a_minority_delivers_nothing_and_goes_on_when_others_are_back(tmp_path: Path) -> None:
    with Cluster(tmp_path, durable=True) as cluster:
        cluster.begin("abc").load(2).wait_until_confirmed_at("abc", 20)
        for victim in "ab":
            cluster.members[victim].signal(signal.SIGSTOP)
        c = cluster.members["c"]
        wait_for(lambda: c.primary is None, "c is not in a primary view")
        c.say("is anybody there")
        for victim in "ab":
            cluster.members[victim].signal(signal.SIGCONT)
        cluster.wait_for_primary("abc").load(0)
        wait_for(lambda: c.confirmed("is anybody there"), "what was said meanwhile is confirmed")
        cluster.quiet().stop().judge()


def test_the_harness_detects_a_lost_confirmed_entry(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("ab").load(1).wait_until_confirmed_at("ab", 20).quiet().stop().judge()
        confirmed = tmp_path / "confirmed-a-1"
        whole = confirmed.read_text().splitlines(keepends=True)
        first, second = (line.split() for line in whole[:2])
        for wrong, complaint in (
            ([second[0], *first[1:]], "is not at"),
            ([*first[:3], "0" * 64], "was confirmed and is missing"),
        ):
            confirmed.write_text("".join([" ".join(wrong) + "\n", *whole[1:]]))
            with pytest.raises(AssertionError, match=complaint):
                cluster.judge()
        confirmed.write_text("".join(whole))
        for log in tmp_path.glob("order-*"):
            lines = log.read_text().splitlines(keepends=True)
            last = json.loads(lines[-1])
            again = next(entry for entry in map(json.loads, lines) if entry["sha256"] == first[3])
            log.write_text("".join([*lines, json.dumps(again | {"i": last["i"] + 1, "label": "another"}) + "\n"]))
        with pytest.raises(AssertionError, match="an entry is there twice"):
            cluster.judge()


def test_check_reports_the_violation(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("ab").load(1).wait_until_confirmed_at("ab", 20).quiet().stop().judge()
    traces = sorted(tmp_path.glob("trace-*"))
    command = [sys.executable, "-m", "cluster", "check"]

    def check(*paths: Path) -> tuple[int, str]:
        done = subprocess.run([*command, *map(str, paths)], cwd=TOP, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, text = check(*traces)
    assert (code, "all specifications hold" in text) == (0, True)
    lines = traces[1].read_bytes().splitlines(keepends=True)
    at = next(i for i in range(len(lines) // 2, len(lines)) if b'"Deliver"' in lines[i])
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"".join(lines[:at] + lines[at + 1 :]))
    code, text = check(traces[0], damaged)
    assert (code, "not enabled" in text) == (1, True)
    code, text = check(damaged)
    assert (code, "the traces must name one founder" in text) == (2, True)
    damaged.write_bytes(b"hello\n" + lines[0])
    assert check(traces[0], damaged)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--key-file", "KEY"], "needs the address of a member"),
        (["--key-file", "nowhere", "--found"], "cannot be read"),
        (["--key-file", "OPEN", "--found"], "chmod 600"),
        (["--key-file", "KEY", "--join", "nonsense"], "is not an address"),
        (["--key-file", "KEY", "--found", "--listen", "192.0.2.1:7"], "cannot listen on 192.0.2.1:7"),
        (["--key-file", "KEY", "--found", "--tls-cert", "x"], "needs all of"),
        (["--key-file", "KEY", "--found", "--heartbeat", "0.5"], "heartbeat < suspect_min <= suspect_max"),
        (["--key-file", "KEY", "--found", "--suspect-max", "0.1"], "heartbeat < suspect_min <= suspect_max"),
    ],
    ids=[
        "nobody to join",
        "no key",
        "open key",
        "no address",
        "no such address",
        "half of TLS",
        "rare heartbeat",
        "no patience",
    ],
)
def test_a_node_that_cannot_start_reports_the_reason(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    make_key_file(tmp_path / "KEY")
    make_key_file(tmp_path / "OPEN")
    (tmp_path / "OPEN").chmod(0o644)
    words = [str(tmp_path / word) if word in ("KEY", "OPEN") else word for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "cluster", "node", "--name", "a", *words],
        cwd=TOP, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_in_use_is_reported_and_other_members_are_not_affected(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("ab").load(2)
        taken = cluster.members["a"].address
        done = subprocess.run(
            [sys.executable, "-m", "cluster", "node", "--name", "c", "--key-file", str(cluster.key_file), "--listen",
             taken, "--join", taken, "--data", str(tmp_path / "c")],
            cwd=TOP, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=30,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"cannot listen on {taken}" in done.stderr
        assert "Traceback" not in done.stderr
        cluster.wait_until_confirmed_at("ab", 10).quiet().stop().judge()
