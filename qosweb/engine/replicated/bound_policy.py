"""The policy as it applies now: at the present time and load, and with the present nodes.

It is rebuilt when the environment changes (time of day, number of nodes, load, pages accessed, capacity), not for each
request. Building never fails. The checks of the language find contradictions, but do not examine every situation where
very many conditions interact. In such a situation the constraint that was written first wins, equally at all replicas.
Below: `qosweb.webqos.policy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.buckets import BucketRule
from qosweb.engine.replicated.cost_scale import measure_of
from qosweb.webqos.model.conditions import is_of_client
from qosweb.webqos.model.model import Bytes, Requests, Share
from qosweb.webqos.policy.binding import bind
from qosweb.webqos.policy.division import Division
from qosweb.webqos.policy.environment import ShareBasis
from qosweb.webqos.policy.priority_cycles import without_cycles
from qosweb.webqos.policy.terms import Terms, terms_of
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.webqos import Environment
    from qosweb.webqos.model.model import Constraint, Model
    from qosweb.webqos.policy.coverage import Coverage

CHANNEL_BPS = (128 << 10) * 1000 // 250  # default: 128 KB in 250 ms


class BoundPolicy:
    """A policy evaluated in one environment. Lists are indexed by class number.

    `in_force` maps the numbers of the constraints in force to the classes that they bound.
    """

    __slots__ = ("_division", "_guaranteed", "_rates", "_slot_division", "always", "buckets_of", "in_force", "measures",
                 "rules", "slot_bounds_of", "slot_buckets_of", "terms")  # fmt: skip

    def __init__(self, model: Model, coverage: Coverage, environment: Environment) -> None:
        count = len(model.classes)
        binding = without_cycles(bind(model, coverage, environment), count)
        self.in_force = {one.number: tuple(sorted({*one.lower, *one.upper})) for one in binding.in_force}
        self.terms: list[Terms] = [terms_of(model, coverage, binding, number, or_first=True) for number in range(count)]
        self.always = [terms.always for terms in self.terms]
        self.measures = [measure_of(terms) for terms in self.terms]  # of costs in pools of servers; empty: slot time
        self._rates = [_channel_bps(terms) for terms in self.terms]
        self._division = Division(model, coverage, binding, ShareBasis.of(environment))
        self._slot_division = Division(model, coverage, binding, ShareBasis.of(environment, has_ceilings=False))
        self._guaranteed: tuple[int, ...] | None = None
        uppers = [(one.number, one.upper) for one in binding.in_force if one.upper]
        self.rules = [rule for number, classes in uppers if (rule := _rule(model, number, classes, environment))]
        self.buckets_of: list[tuple[int, ...]] = [
            tuple(at for at, rule in enumerate(self.rules) if number in rule.classes and not self.always[number])
            for number in range(count)
        ]
        # In a pool of servers a hard share bounds slots: part of the slots, and the classes that share it
        self.slot_bounds_of: list[tuple[tuple[int, tuple[int, ...]], ...]] = [
            tuple((self.rules[at].share_ppm, self.rules[at].classes) for at in ats if self.rules[at].share_ppm)
            for ats in self.buckets_of
        ]
        self.slot_buckets_of: list[tuple[int, ...]] = [
            tuple(at for at in ats if not self.rules[at].share_ppm) for ats in self.buckets_of
        ]

    def shares(self, demand_ppm: list[int]) -> tuple[int, ...]:
        return self._division.shares(demand_ppm)

    def slot_shares(self, demand_ppm: list[int]) -> tuple[int, ...]:
        """The same in a pool of servers. Rates are parts of the bytes, not of the slots: only tokens bound them."""
        return self._slot_division.shares(demand_ppm)

    @property
    def guaranteed(self) -> tuple[int, ...]:
        """The guaranteed shares: those if all classes demanded everything, except always-available ones."""
        if self._guaranteed is None:
            self._guaranteed = self.shares([0 if always else PPM for always in self.always])
        return self._guaranteed

    def rate_bps(self, number: int, cost: int) -> int:
        """The channel rate of a request: that of its class, or what its response time requires."""
        response_ms = self.terms[number].response_ms
        if not response_ms:
            return self._rates[number] or CHANNEL_BPS
        return max(1, self._rates[number], -(-cost * 1000 // response_ms))


def _channel_bps(terms: Terms) -> int:
    """The specified channel rate, or 0."""
    if terms.channel_bytes is None or not terms.channel_ms:
        return 0
    return max(1, terms.channel_bytes * 1000 // terms.channel_ms)


def _rule(model: Model, number: int, classes: tuple[int, ...], environment: Environment) -> BucketRule | None:
    constraint: Constraint = model.constraints[number]
    value = constraint.value
    nodes = environment.nodes
    of_client = constraint.condition is not None and is_of_client(constraint.condition, model.atoms)
    match value:
        case Requests():
            return BucketRule(number, classes, "requests", value.urps * (nodes if value.per_node else 1), of_client)
        case Bytes():
            return BucketRule(number, classes, "bytes", value.bps * (nodes if value.per_node else 1), of_client)
        case Share() if constraint.hard and environment.capacity_bps:
            return BucketRule(
                number, classes, "bytes", value.ppm * environment.capacity_bps // PPM, of_client, value.ppm
            )
    return None
