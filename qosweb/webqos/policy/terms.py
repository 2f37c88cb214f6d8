"""Terms of a class besides its share: availability, lifetime in the queue, channel, response time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.webqos.model.model import ChannelSize, Constraint, Duration, HeaderNumber, Word

if TYPE_CHECKING:
    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.binding import Binding
    from qosweb.webqos.policy.coverage import Coverage


LIFETIME_DEFAULT_MS = 10_000  # if a specification sets none: users do not look at an empty page for longer


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one class; None where nothing is set."""

    always: bool
    lifetime_ms: int | None  # None (unbounded) only for always available classes and without any rules
    response_ms: int | None
    channel_bytes: int | None
    channel_ms: int | None
    in_minority: str
    cost: str | None  # time, bytes, requests or header; None: time where a server answers, bytes where a node does
    cost_header: str | None  # the response header that says it


class ConflictingValues(Exception):
    """Two constraints set an attribute to different values for one class, and neither covers fewer pages."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.constraints = (first, second)


def terms_of(model: Model, coverage: Coverage, binding: Binding, number: int, *, or_first: bool = False) -> Terms:
    """The terms of class ``number``. Of two constraints, the one with the smaller set of pages decides.

    Raises ConflictingValues if neither set contains the other. With ``or_first`` the constraint written first decides.
    """
    of_class: dict[str, list[int]] = {}
    for one in binding.in_force:
        if number in one.lower:
            of_class.setdefault(model.constraints[one.number].attribute, []).append(one.number)
    always = number in binding.always
    lifetime = _decided(model, coverage, of_class.get("lifetime", []), or_first)
    channel = _decided(model, coverage, of_class.get("channel", []), or_first)
    minority = _decided(model, coverage, of_class.get("in_minority", []), or_first)
    cost = _decided(model, coverage, of_class.get("cost", []), or_first)
    responses = [model.constraints[at].value for at in of_class.get("response_time", [])]
    settings = model.settings
    lifetime_ms = settings.lifetime_ms
    if lifetime_ms is None and model.rules:  # without a specification no request expires
        lifetime_ms = LIFETIME_DEFAULT_MS
    if lifetime is not None and isinstance(lifetime.value, Duration):
        lifetime_ms = lifetime.value.ms
    size, ms = settings.channel_bytes, settings.channel_ms
    if channel is not None and isinstance(channel.value, ChannelSize):
        size, ms = channel.value.size, channel.value.ms
    return Terms(
        always,
        None if always else lifetime_ms,
        min((value.ms for value in responses if isinstance(value, Duration)), default=None),
        size,
        ms,
        minority.value.word if minority is not None and isinstance(minority.value, Word) else "serve",
        *_cost(cost),
    )


def _cost(rule: Constraint | None) -> tuple[str | None, str | None]:
    if rule is None:
        return None, None
    if isinstance(rule.value, HeaderNumber):
        return "header", rule.value.name
    assert isinstance(rule.value, Word)
    return rule.value.word, None


def _decided(model: Model, coverage: Coverage, numbers: list[int], or_first: bool) -> Constraint | None:
    """The constraint with the smallest set of pages. If there are several, their values must agree."""
    pages = {number: set(coverage.classes(model.constraints[number].pages)) for number in numbers}
    smallest = [number for number in numbers if not any(pages[other] < pages[number] for other in numbers)]
    for number in smallest[1:]:
        if not or_first and model.constraints[number].value != model.constraints[smallest[0]].value:
            raise ConflictingValues(smallest[0], number)
    return model.constraints[smallest[0]] if smallest else None
