"""Progress on standard error: one line when a step begins. In a terminal, Spark's own bar shows the tasks of a step."""

from __future__ import annotations

import sys
import time

from qosweb.terminal_text import escape_controls


class StepProgress:
    """``show_step`` names the current step; ``timings`` says at the end how long each one took."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.has_bar = not quiet and sys.stderr.isatty()
        self._begun_s = time.monotonic()
        self._steps: list[tuple[str, float]] = []  # with the times at which they began

    def show_step(self, step: str) -> None:
        step = escape_controls(step)
        self._steps.append((step, time.monotonic()))
        if not self._quiet:
            sys.stderr.write(f"qosweb: {step} ({time.monotonic() - self._begun_s:.0f} s)\n")
            sys.stderr.flush()

    def timings(self) -> str:
        """How long each step took, one line each. Background queries count for the step that waits for them."""
        ends = [begun_s for _, begun_s in self._steps[1:]] + [time.monotonic()]
        took = [(step, end_s - begun_s) for (step, begun_s), end_s in zip(self._steps, ends, strict=True)]
        took.append(("total", ends[-1] - self._begun_s))
        return "".join(f"qosweb: {seconds:6.1f} s  {step}\n" for step, seconds in took)
