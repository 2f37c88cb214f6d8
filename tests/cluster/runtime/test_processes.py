"""Real processes on loopback: killed, stopped, restarted. What they leave behind is judged by the specifications."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.cluster.runtime.members import Cluster
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


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
        cluster.begin("abc", "--load", "4")
        cluster.wait_until_confirmed_at("abc", 50)
        cluster.members[victim].kill()
        rest = "abc".replace(victim, "")
        cluster.wait_for_primary(rest).wait_until_confirmed_at(rest, 50)
        cluster.start(victim)
        cluster.wait_for_primary("abc").wait_until_confirmed_at(rest, 50)
        cluster.quiet().stop().judge()


def test_an_idle_member_may_be_killed(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        cluster.members["a"].kill()
        cluster.wait_for_primary("bc").quiet().stop().judge()


def test_five_fall_to_two(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abcde", "--load", "2")
        left = "abcde"
        for victim in "ebd":
            cluster.wait_until_confirmed_at(left, 20)
            cluster.members[victim].kill()
            left = left.replace(victim, "")
            cluster.wait_for_primary(left)
        cluster.wait_until_confirmed_at(left, 20).quiet().stop().judge()


def test_a_stopped_member_is_left_out_and_comes_back(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc", "--load", "2")
        cluster.members["b"].signal(signal.SIGSTOP)
        cluster.wait_for_primary("ac").wait_until_confirmed_at("ac", 20)
        cluster.members["b"].signal(signal.SIGCONT)
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        cluster.quiet().stop().judge()


def test_a_member_that_leaves_is_gone_at_once(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("abc")
        cluster.members["c"].say(".leave")
        cluster.wait_for_primary("ab")
        assert cluster.members["c"].process.wait(10) == 0
        cluster.quiet().stop().judge()


@pytest.mark.parametrize("victim", ["a", "c"])
def test_a_member_with_a_disk_resumes_after_kill(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path, durable=True) as cluster:
        cluster.begin("abc", "--load", "4")
        cluster.wait_until_confirmed_at("abc", 50)
        cluster.members[victim].kill()
        rest = "abc".replace(victim, "")
        cluster.wait_for_primary(rest).wait_until_confirmed_at(rest, 50)
        cluster.start(victim, "--load", "4")
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 50)
        cluster.quiet().stop().judge()


def test_all_lose_power_and_go_on_from_their_disks(tmp_path: Path) -> None:
    with Cluster(tmp_path, durable=True) as cluster:
        cluster.begin("abc", "--load", "4")
        cluster.wait_until_confirmed_at("abc", 50)
        for member in cluster.members.values():
            member.kill()
        for name in "abc":
            cluster.start(name, "--load", "4")
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 50)
        cluster.quiet().stop().judge()
