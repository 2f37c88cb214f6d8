"""Seeded random numbers: the published sequence, uniformity, and independent streams."""

from cluster.sim.seeded_random import SeededRandom


def test_the_first_numbers_of_splitmix64() -> None:
    chance = SeededRandom(1234567)
    published = (6457827717110365317, 3203168211198807973, 9817491932198370423)
    assert [chance.random() for _ in published] == [(number >> 11) / 2**53 for number in published]


def test_numbers_are_in_range_and_spread() -> None:
    chance = SeededRandom(1)
    numbers = [chance.random() for _ in range(100_000)]
    assert all(0.0 <= number < 1.0 for number in numbers)
    assert abs(sum(numbers) / len(numbers) - 0.5) < 0.004
    counts = [0] * 5
    for _ in range(10_000):
        counts[chance.below(5)] += 1
    assert max(counts) - min(counts) < 300


def test_an_exponential_has_its_mean() -> None:
    chance = SeededRandom(2)
    assert abs(sum(chance.exponential(3.0) for _ in range(20_000)) / 20_000 - 3.0) < 0.1


def test_a_shuffle_keeps_everything() -> None:
    items = list(range(50))
    SeededRandom(3).shuffle(items)
    assert items != list(range(50))
    assert sorted(items) == list(range(50))
    assert len(set(SeededRandom(3).sample(range(50), 7))) == 7


def test_a_fork_depends_on_seed_and_name_alone() -> None:
    drawn = SeededRandom(4)
    for _ in range(10):
        drawn.random()
    assert drawn.fork("x").random() == SeededRandom(4).fork("x").random()
    assert SeededRandom(4).fork("x").random() != SeededRandom(4).fork("y").random()
    assert SeededRandom(4).fork("x").random() != SeededRandom(5).fork("x").random()
