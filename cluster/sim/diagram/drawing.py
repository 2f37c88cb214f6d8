"""Draws a run as a space-time diagram (SVG): one column per process, time runs downwards, messages are arrows.

The lifeline of a process is thick and coloured while it is in an established primary view, and thin while it is not.
Periods in which nothing happens are shortened, so distances on the time axis are not to scale.
Below: `recorder` records the run.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import View
    from cluster.sim.diagram.recorder import Arrow, LifelineSpan, SpaceTimeRecorder

COLUMN, LEFT, TOP = 150, 70, 70  # pixels
STEP_MIN, STEP_MAX = 26, 64
QUIET_S = 0.02  # a longer period without events is drawn as a gap
COLOURS = ("#2b6f9e", "#2e8b57", "#8a4fa3", "#b4472e", "#8a7a1f", "#4f6d8f")
KINDS = {  # kind: (colour, dashes, legend)
    "entry": ("#2b6f9e", "", "entry"),
    "null": ("#b9c4cc", "2 3", "empty slot"),
    "ack": ("#b9c4cc", "", "acknowledgement"),
    "sync": ("#d08a1d", "", "view change (view_msg, sync_msg)"),
    "state": ("#8a4fa3", "", "primary view and state exchange"),
    "supply": ("#2e8b57", "", "state transfer"),
}


def draw(run: SpaceTimeRecorder, title: str) -> str:
    """The diagram as SVG."""
    run.finish()
    begin = run.begin or 0.0
    spans = [span for span in run.spans if span.end >= begin]
    columns = sorted({span.process for span in spans} | {arrow.receiver for arrow in run.arrows})
    return _Drawing(columns, _time_axis(run.times()), begin, len(title)).draw(run, title)


def _time_axis(times: list[float]) -> Callable[[float], float]:
    """Maps a time to a vertical position. A short step has a height of its own; a long one is shortened."""
    places: dict[float, float] = {}
    y = float(TOP)
    for before, now in zip([times[0], *times], times, strict=False):
        if now > before:
            y += STEP_MAX if now - before > QUIET_S else STEP_MIN
        places[now] = y

    def at(time: float) -> float:
        return places.get(time, float(TOP) if time < times[0] else y)

    return at


class _Drawing:
    """The SVG elements of one diagram."""

    def __init__(self, columns: list[str], at: Callable[[float], float], begin: float, title_len: int) -> None:
        self._x = {name: LEFT + COLUMN // 2 + COLUMN * number for number, name in enumerate(columns)}
        self._at = at
        self._begin = begin
        self._width = max(LEFT + COLUMN * max(2, len(columns)) + 20, 20 + 8 * title_len)
        self._parts: list[str] = []
        self._colours: dict[str, str] = {}

    def draw(self, run: SpaceTimeRecorder, title: str) -> str:
        end = max(self._at(run.end), TOP) + 20
        for name, x in self._x.items():
            self._text(x, TOP - 22, name, "middle", "font-weight='bold' font-size='15'")
        self._times(run.times())
        for span in run.spans:
            if span.end < self._begin:
                continue
            self._lifeline(span, end if span.end >= run.end else None)
        for time, text in run.remarks:
            self._remark(time, text)
        for arrow in run.arrows:
            self._arrow(arrow)
        for time, name, view in run.views:
            self._view(time, name, view)
        for time, name, label in run.deliveries:
            x, y = self._x[name], self._at(time)
            self._parts.append(f"<circle cx='{x}' cy='{y:.0f}' r='5' fill='#14324a'/>")
            self._text(x + 10, y + 4, f"deliver {label}", "start", "font-weight='bold'")
        for time, name in run.crashes:
            self._text(self._x[name], self._at(time) + 6, "✕", "middle", "fill='#b4472e' font-size='20'")
        height = self._legend(run, end + 30)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self._width} {height:.0f}' width='{self._width}' "
            f"font-family='system-ui, sans-serif' font-size='12'>\n<title>{escape(title)}</title>\n"
            f"<rect width='100%' height='100%' fill='white'/>\n"
            + "\n".join(self._parts)
            + f"\n<text x='10' y='22' font-size='14'>{escape(title)}</text>\n</svg>\n"
        )

    def _text(self, x: float, y: float, text: str, anchor: str = "start", style: str = "") -> None:
        self._parts.append(
            f"<text x='{x:.0f}' y='{y:.0f}' text-anchor='{anchor}' stroke='white' stroke-width='3' "
            f"paint-order='stroke' {style}>{escape(text)}</text>"
        )

    def _times(self, times: list[float]) -> None:
        before = None
        for time in times:
            y = self._at(time)
            self._text(LEFT - 8, y + 4, f"{1000 * (time - self._begin):.0f} ms", "end", "fill='#7a8790' font-size='10'")
            if before is not None and time - before > QUIET_S:
                self._text(LEFT - 20, y - STEP_MAX / 2 + 4, "⋮", "middle", "fill='#7a8790' font-size='16'")
            before = time

    def _lifeline(self, span: LifelineSpan, end: float | None) -> None:
        x = self._x[span.process]
        top = self._at(max(span.begin, self._begin)) - (14 if span.begin < self._begin else 0)
        colour, width = ("#9aa7b0", 1.5) if span.view is None else (self._colour(span.view), 6)
        self._parts.append(
            f"<line x1='{x}' y1='{top:.0f}' x2='{x}' y2='{end or self._at(span.end):.0f}' stroke='{colour}' "
            f"stroke-width='{width}' stroke-opacity='0.75'/>"
        )

    def _colour(self, view: View) -> str:
        return self._colours.setdefault(str(view.id), COLOURS[len(self._colours) % len(COLOURS)])

    def _remark(self, time: float, text: str) -> None:
        y = self._at(time)
        self._parts.append(
            f"<line x1='{LEFT}' y1='{y:.0f}' x2='{self._width - 10}' y2='{y:.0f}' stroke='#b4472e' "
            "stroke-dasharray='6 4'/>"
        )
        self._text(self._width - 12, y - 5, text, "end", "fill='#b4472e' font-style='italic'")

    def _arrow(self, arrow: Arrow) -> None:
        colour, dashes, _ = KINDS[arrow.kind]
        x1, y1 = float(self._x[arrow.sender]), self._at(arrow.sent_at)
        x2 = float(self._x[arrow.receiver])
        if arrow.received_at is None:  # lost: half of the way
            x2, y2 = (x1 + x2) / 2, y1 + STEP_MIN / 2
            self._text(x2, y2 + 4, "✕", "middle", f"fill='{colour}' font-size='10'")
        else:
            y2 = self._at(arrow.received_at)
        style = f" stroke-dasharray='{dashes}'" if dashes else ""
        self._parts.append(
            f"<line x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}' stroke='{colour}' "
            f"stroke-width='{2 if arrow.kind == 'entry' else 1.2}'{style}/>"
        )
        if arrow.received_at is not None:
            self._head(x1, y1, x2, y2, colour)
        if arrow.label and abs(x2 - x1) <= COLUMN:
            self._text((x1 + x2) / 2, (y1 + y2) / 2 - 4, arrow.label, "middle", f"fill='{colour}'")

    def _head(self, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        bx, by = x2 - 9 * ux, y2 - 9 * uy
        points = f"{x2:.1f},{y2:.1f} {bx - 4 * uy:.1f},{by + 4 * ux:.1f} {bx + 4 * uy:.1f},{by - 4 * ux:.1f}"
        self._parts.append(f"<polygon points='{points}' fill='{colour}'/>")

    def _view(self, time: float, name: str, view: View) -> None:
        x, y = self._x[name], self._at(time)
        members = "".join(str(member) for member in view.members)
        self._parts.append(f"<rect x='{x - 62}' y='{y - 9:.0f}' width='56' height='18' rx='4' fill='white' "
                           f"stroke='{self._colour(view)}'/>")  # fmt: skip
        self._text(x - 34, y + 4, f"{view.id.epoch}: {members}", "middle", "font-size='10'")

    def _legend(self, run: SpaceTimeRecorder, y: float) -> float:
        used = {arrow.kind for arrow in run.arrows}
        for kind, (colour, dashes, text) in KINDS.items():
            if kind in used:
                style = f" stroke-dasharray='{dashes}'" if dashes else ""
                self._parts.append(
                    f"<line x1='{LEFT}' y1='{y:.0f}' x2='{LEFT + 40}' y2='{y:.0f}' stroke='{colour}' "
                    f"stroke-width='2'{style}/>"
                )
                self._text(LEFT + 50, y + 4, text)
                y += 18
        self._text(LEFT, y + 4, "thick line: in an established primary view; box: its number and members")
        if run.omitted:
            y += 18
            self._text(LEFT, y + 4, f"{run.omitted} more messages are not drawn")
        return y + 24
