"""Findings of an experiment: checks with their numbers, tables, plot data, and the verdict. Pure."""

from __future__ import annotations

import msgspec

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"


class Check(msgspec.Struct, frozen=True):
    """One condition, whether it holds, and the measured values."""

    text: str
    holds: bool
    actual: str


class Table(msgspec.Struct, frozen=True):
    """A table of texts for the report."""

    title: str
    head: list[str]
    rows: list[list[str]]


class PlotLine(msgspec.Struct, frozen=True):
    """A line of a panel. ``tone`` selects the colour; lines of one class have the same."""

    label: str
    xs: list[float]
    ys: list[float]
    tone: int
    dashed: bool = False


class Mark(msgspec.Struct, frozen=True):
    """An event, marked on the x axis."""

    x: float
    text: str


class Panel(msgspec.Struct, frozen=True):
    """One pair of axes. ``levels`` are guarantees: (height, tone)."""

    title: str
    x_label: str
    y_label: str
    lines: list[PlotLine]
    levels: list[tuple[float, int]] = []
    marks: list[Mark] = []
    log_x: bool = False


class Stack(msgspec.Struct, frozen=True):
    """A part of every bar."""

    label: str
    values: list[float]
    tone: int


class Bars(msgspec.Struct, frozen=True):
    """Horizontal bars of the same parts. ``levels`` are (length, label)."""

    title: str
    x_label: str
    names: list[str]
    stacks: list[Stack]
    levels: list[tuple[float, str]] = []


class ExperimentFindings(msgspec.Struct):
    """Findings of one experiment."""

    seen: str  # the result, in a sentence
    checks: list[Check]
    panels: list[Panel | Bars] = []
    tables: list[Table] = []
    csv_head: list[str] = []
    csv_rows: list[list[str]] = []
    notes: list[str] = []
    skipped: str = ""  # the reason, if it was not run

    @property
    def verdict(self) -> str:
        if self.skipped:
            return SKIPPED
        return PASS if self.checks and all(check.holds for check in self.checks) else FAIL


def skip(reason: str) -> ExperimentFindings:
    return ExperimentFindings(seen="", checks=[], skipped=reason)
