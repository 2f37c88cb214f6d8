"""Questions beside the main work: answers, what went wrong, and an end."""

from __future__ import annotations

import threading

import pytest

from qosweb.analytics.spark.background_queries import BackgroundQueries


def test_it_goes_on_while_something_else_is_done() -> None:
    asked = threading.Event()
    with BackgroundQueries() as beside:
        answer = beside.begin(lambda: asked.wait(30))
        asked.set()
        assert answer()


def test_what_went_wrong_is_told_to_who_wants_the_answer() -> None:
    def ask() -> None:
        raise ValueError("no such column")

    with BackgroundQueries() as beside:
        answer = beside.begin(ask)
        with pytest.raises(ValueError, match="no such column"):
            answer()


def test_at_the_end_nothing_is_under_way_and_nothing_begins() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), []

    def first() -> None:
        begun.set()
        go_on.wait(30)
        done.append("first")

    with BackgroundQueries() as beside:
        beside.begin(first)
        beside.begin(lambda: done.append("second"))
        assert begun.wait(30)
        threading.Timer(0.05, go_on.set).start()
    assert done == ["first"]
