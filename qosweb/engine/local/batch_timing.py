"""Batch timing: decides when a node sends its next batch; at once, unless waiting a moment costs nothing.

A batch costs every node something, however small it is. Under contention there is always something to send: new
requests, released channels. If the next requests for its channels are ready (granted ahead, see `pipes`), a node needs
no news for a while, and can put more into fewer batches. It waits for up to SUPPLIED_MS since its last batch, while all
of these conditions hold:

- the ready requests last for SUPPLIED_MS more, and are more than a few: several channels may become free together;
- for each class with requests to submit, earlier requests of the class are known to wait at this node;
- no request of an always-available class waits, here or at another node;
- there is no capacity report, no policy and no restatement to send.

So a request that may be next is announced at once: one of a class that returns from idleness, of a class that gets less
than its share and is served on arrival, or of a class that has room at another node (none of its requests waits then).
Only the requests that have to wait in any case are announced later. No channel idles, and the node's own clock enforces
lifetimes in any case.
Neighbours: `engine` calls this.  Below: `pipe_queue`, `outbox` and the state machine, read-only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.pipes import LOOKAHEAD_MS

if TYPE_CHECKING:
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.local.pipe_queue import PipeQueue
    from qosweb.engine.replicated.state_machine import QosStateMachine

SUPPLIED_MS = LOOKAHEAD_MS // 2


def can_wait(machine: QosStateMachine, pipe_queue: PipeQueue, outbox: BatchOutbox) -> bool:
    """Whether the next batch can wait a little and collect more."""
    if outbox.is_urgent or not pipe_queue.lasts_for(SUPPLIED_MS):
        return False
    always, me = machine.scheduler.bound.always, pipe_queue.me
    for number, one in enumerate(machine.classes):
        if pipe_queue.has_untold(number):
            if always[number] or me not in one.queues:
                return False
        elif always[number] and one.waiting:
            return False
    return True
