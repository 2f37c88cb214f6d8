"""The size of a request's channel: what the specification in force says of its class.

From: section 3.2.2 of the paper: a page of size x to be served in time t needs a channel of x/t. ``set channel`` and
a class's own ``channel`` give x and t outright; ``response_time`` gives t, and the page x: the larger rate counts.
No channel is wider than the pipe. What is in force depends on the time and the load, and is looked up once a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.policy.binding import Binding, bind
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.terms import Terms, TwoValues, terms_of

if TYPE_CHECKING:
    from qosweb.node.labels import Labels
    from qosweb.node.policy import Policy

CHANNEL_BYTES = 128 << 10
CHANNEL_MS = 250
KEPT_S = 1.0


class Channels:
    def __init__(self, policy: Policy, capacity_bps: int) -> None:
        self._policy = policy
        self._capacity_bps = capacity_bps
        self._labels: Labels | None = None  # that the rest is about
        self._coverage: Coverage | None = None
        self._binding: Binding | None = None
        self._numbers: dict[str, int] = {}
        self._terms: dict[str, Terms | None] = {}
        self._good_until = 0.0

    def rate_bps(self, class_name: str, page_size: int, now: float) -> int:
        """Bytes per second for a request of the class, whose page has ``page_size`` bytes; at least 1."""
        labels = self._policy.labels
        if labels is not self._labels or now >= self._good_until:
            self._look(labels, now)
        if class_name not in self._terms:
            self._terms[class_name] = self._terms_of(class_name)
        terms = self._terms[class_name]
        size, ms = CHANNEL_BYTES, CHANNEL_MS
        wanted = 0
        if terms is not None:
            if terms.channel_bytes is not None and terms.channel_ms is not None:
                size, ms = terms.channel_bytes, terms.channel_ms
            if terms.response_ms is not None:
                wanted = -(-page_size * 1000 // terms.response_ms)
        return max(1, min(self._capacity_bps, max(size * 1000 // ms, wanted)))

    def _look(self, labels: Labels, now: float) -> None:
        if labels is not self._labels:
            self._labels = labels
            self._coverage = None if labels.model is None else Coverage(labels.model)
            self._numbers = {name: number for number, name in enumerate(labels.names)}
        if labels.model is not None and self._coverage is not None:
            self._binding = bind(labels.model, self._coverage, labels.environment(now))
        self._terms = {}
        self._good_until = now + KEPT_S

    def _terms_of(self, class_name: str) -> Terms | None:
        model = self._policy.labels.model
        number = self._numbers.get(class_name)
        if model is None or number is None or self._coverage is None or self._binding is None:
            return None
        try:
            return terms_of(model, self._coverage, self._binding, number)
        except TwoValues:  # the checks refuse what they can foresee of this
            return None
