"""When a node tells the others: at once, but for what loses nothing by a moment more.

A batch costs every member something, however little is in it. In contention there is always something to tell: requests
that come, channels that become free. Where the next requests for its channels are ready (they were granted ahead, see
`pipes`), a node need not hear anything for a while, and tells more with fewer batches. It waits for up to SUPPLIED_MS
since its last batch, while all of this holds:

- what is ready lasts for SUPPLIED_MS more, and is more than a few: channels may well end together;
- of each class that it has something to submit of, others are known to wait here, who come first;
- nothing waits, here or elsewhere, that is always available;
- it has no capacity to report, no policy, and no state to say anew.

So whoever may be next is told of at once: a class that comes back from idleness, one that gets less than its share and
is served whenever it comes, one that there is room for elsewhere (nobody of it is left waiting then). Of the others it
is only told later that they will wait. No channel idles, and lifetimes are kept by the node's own clock in any case.
Neighbours: `engine` asks.  Below: `admission`, `outbox` and the machine, to look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.pipes import LOOKAHEAD_MS

if TYPE_CHECKING:
    from qosweb.engine.local.admission import Admission
    from qosweb.engine.local.outbox import BatchOutbox
    from qosweb.engine.replicated.state_machine import QosStateMachine

SUPPLIED_MS = LOOKAHEAD_MS // 2


def can_wait(machine: QosStateMachine, admission: Admission, outbox: BatchOutbox) -> bool:
    """Whether what is to be told may be told a little later, to others."""
    if outbox.is_urgent or not admission.lasts_for(SUPPLIED_MS):
        return False
    always, me = machine.scheduler.bound.always, admission.me
    for number, one in enumerate(machine.classes):
        if admission.has_untold(number):
            if always[number] or me not in one.queues:
                return False
        elif always[number] and one.waiting:
            return False
    return True
