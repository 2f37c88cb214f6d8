"""Real network partitions with namespaces: silent cuts in one or both directions, and healing."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.cluster.runtime.members import Cluster
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long


@contextmanager
def group(folder: Path, names: str) -> Iterator[tuple[Cluster, NamespaceNetwork]]:
    """Members under load, each in its own namespace."""
    with ExitStack() as stack:
        try:
            network = stack.enter_context(NamespaceNetwork(names))
        except NamespacesUnavailable as reason:
            pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
        cluster = stack.enter_context(Cluster(folder, network=network))
        cluster.begin(names).load(2).wait_until_confirmed_at(names, 20)
        yield cluster.wait_for_primary(names), network


def no_primary(cluster: Cluster, names: str) -> None:
    """Wait until none of these is in a primary view, and each has reported its status since."""
    wait_for(
        lambda: all(
            cluster.members[name].primary is None and cluster.members[name].status["primary"] is None for name in names
        ),
        f"no primary view at any of {names}",
    )


FLAPS = 10  # number of cuts of a link
FLAP_S = (0.1, 0.3)  # duration of a cut and of the time between cuts: shorter than any suspicion timeout


def end(cluster: Cluster) -> None:
    cluster.quiet().stop().judge()


@pytest.mark.parametrize(("majority", "minority"), [("abc", "de"), ("abde", "c"), ("bcde", "a")])
def test_the_larger_side_goes_on_and_the_smaller_delivers_nothing(tmp_path: Path, majority: str, minority: str) -> None:
    with group(tmp_path, "abcde") as (cluster, network):
        network.part(majority, minority)
        cluster.wait_for_primary(majority)
        no_primary(cluster, minority)
        positions = {name: cluster.members[name].status["position"] for name in minority}
        cluster.wait_until_confirmed_at(majority, 20)
        assert positions == {name: cluster.members[name].status["position"] for name in minority}
        network.heal()
        cluster.wait_for_primary("abcde").wait_until_confirmed_at("abcde", 20)
        end(cluster)


def test_two_two_one_has_no_primary_view_until_it_heals(tmp_path: Path) -> None:
    with group(tmp_path, "abcde") as (cluster, network):
        network.part("ab", "cd", "e")
        no_primary(cluster, "abcde")
        network.part("abcd", "e")
        cluster.wait_for_primary("abcd").wait_until_confirmed_at("abcd", 20)
        network.heal()
        cluster.wait_for_primary("abcde")
        end(cluster)


def test_half_of_an_even_view_continues_if_it_has_the_lowest_member(tmp_path: Path) -> None:
    with group(tmp_path, "abcd") as (cluster, network):
        network.part("ad", "bc")
        cluster.wait_for_primary("ad").wait_until_confirmed_at("ad", 20)
        no_primary(cluster, "bc")
        network.heal()
        cluster.wait_for_primary("abcd")
        end(cluster)


def test_a_one_way_cut_excludes_one_member(tmp_path: Path) -> None:
    with group(tmp_path, "abc") as (cluster, network):
        network.cut("b", "c")

        def two() -> bool:
            views = [cluster.members[name].primary for name in "abc"]
            return sum(view in (["a", "b"], ["a", "c"]) for view in views) == 2 and views.count(None) == 1

        wait_for(two, "a primary view of a and one of b and c", 30.0)
        network.heal()
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        end(cluster)


def test_a_link_that_flaps_and_a_merge_in_the_middle_of_a_merge(tmp_path: Path) -> None:
    with group(tmp_path, "abcde") as (cluster, network):
        for _ in range(3):
            network.part("abc", "de")
            cluster.wait_for_primary("abc")
            before = len(cluster.members["a"].stderr)
            network.part("abcd", "e")
            wait_for(lambda: "start_change" in cluster.members["a"].stderr[before:], "a begins to take in d")  # noqa: B023
            network.heal()
            cluster.wait_for_primary("abcde")  # the next round must not take the last primary view of abc for its own
        cluster.wait_until_confirmed_at("abcde", 20)
        end(cluster)


@pytest.mark.parametrize("pair", ["ab", "bc"])
def test_a_link_that_flaps_faster_than_the_suspicion_timeout(tmp_path: Path, pair: str) -> None:
    """Neither cut nor connected for long: some packets are late, some heartbeats are lost."""
    chance = random.Random(pair)
    with group(tmp_path, "abc") as (cluster, network):
        one, other = pair[0], pair[1]
        before = {name: cluster.members[name].delivered for name in "abc"}
        for _ in range(FLAPS):
            for change in (network.cut, network.mend):
                change(one, other)
                change(other, one)
                time.sleep(chance.uniform(*FLAP_S))
        network.heal()
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        assert all(cluster.members[name].delivered > before[name] for name in "abc")
        end(cluster)
