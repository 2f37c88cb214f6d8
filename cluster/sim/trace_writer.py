"""Records a simulated run as a trace, in the members' format, so that `python -m cluster check` can check it.

Below: the world, as one of its listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import ProcessId
from cluster.specs.traces import FORMAT, Life, action_line, life_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.messages import Frame
    from cluster.sim.world import FrameListener


class TraceWriter:
    """Writes the actions of all processes to one file. `also` is another listener to forward to."""

    def __init__(self, founder: str, write: Callable[[bytes], object], also: FrameListener | None = None) -> None:
        self._write = write
        self._also = also
        write(life_line(Life(FORMAT, ProcessId(founder), 1, 0.0, ProcessId(founder))))

    def action(self, time: float, process: ProcessId, action: Action) -> None:
        self._write(action_line(time, action, process))
        if self._also is not None:
            self._also.action(time, process, action)

    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None:
        if self._also is not None:
            self._also.frame(time, sender, to, frame)

    def remark(self, time: float, text: str) -> None:
        if self._also is not None:
            self._also.remark(time, text)
