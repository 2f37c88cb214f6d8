"""Measurements printed in the paper, to show beside ours. Pure.

The paper's figures are images without printed values. This module has table 1 and the numbers in the text of section 4.
"""

from __future__ import annotations

from typing import NamedTuple


class PublishedRow(NamedTuple):
    """A row of table 1."""

    class_name: str
    guarantee: str
    percent_16k: float
    served_16k: int
    percent_128k: float
    served_128k: int


TABLE_1 = (
    PublishedRow("/a", "always", 100.0, 704, 100.0, 298),
    PublishedRow("/b", "30 %", 90.0, 538, 59.7, 172),
    PublishedRow("/c", "30 %", 84.1, 530, 62.2, 173),
    PublishedRow("/d", "20 %", 52.6, 339, 42.4, 123),
    PublishedRow("/e", "20 %", 54.5, 354, 45.5, 122),
)

FIGURE_4_RATES = {"16k": 18, "128k": 8}  # requests per second
FIGURE_7_CONTENTION = (8, 12)  # requests per second of 128 KB: it begins, it is full
FIGURES_7_TO_9_KB = 128  # the size of every page
FIGURE_8_PLAIN_MBPS = 0.78
FIGURE_8_QOS_MBPS = (0.42, 0.70)


def sizes_beside(ours_kb: int) -> str:
    """A sentence for figures 7 to 9, where our pages are smaller than the paper's."""
    times = FIGURES_7_TO_9_KB / ours_kb
    return (
        f"Its pages have {FIGURES_7_TO_9_KB} KB, ours {ours_kb} KB, which gives {times:g} times as many responses for "
        "the same bytes."
    )
