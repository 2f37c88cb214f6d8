"""LossyQueue: which explanations of losses stay open."""

from cluster.specs.queues import LossyQueue


def filled(items: str) -> LossyQueue[str]:
    queue: LossyQueue[str] = LossyQueue()
    for item in items:
        queue.put(item)
    return queue


def test_without_losses_only_the_first_can_be_next() -> None:
    queue = filled("ab")
    assert not queue.take("b")
    assert queue.take("a")
    assert queue.take("b")


def test_a_lost_suffix_can_begin_at_any_element_before_the_loss() -> None:
    queue = filled("abc")
    queue.lose()
    queue.put("d")
    assert queue.take("a")
    assert not queue.take("c")
    assert queue.take("d")


def test_take_anywhere_keeps_later_losses_possible() -> None:
    queue = filled("abc")
    queue.lose()
    queue.put("d")
    assert queue.take_anywhere("b")
    assert queue.take("d")
