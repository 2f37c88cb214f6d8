"""What a class is promised besides its share: availability, waiting time, channel, response time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.webqos.model.model import ChannelSize, Constraint, Duration, Word

if TYPE_CHECKING:
    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.binding import Binding
    from qosweb.webqos.policy.coverage import Coverage


LIFETIME_DEFAULT_MS = 10_000  # where a specification says nothing: nobody looks at an empty page for longer


@dataclass(frozen=True, slots=True)
class Terms:
    always: bool
    lifetime_ms: int | None  # None: no bound, which only `always` has, and everything where there are no rules
    response_ms: int | None
    channel_bytes: int | None
    channel_ms: int | None
    in_minority: str


class TwoValues(Exception):
    """Two constraints give an attribute different values for one class, and neither speaks of fewer pages."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first, second)
        self.constraints = (first, second)


def terms_of(model: Model, coverage: Coverage, binding: Binding, number: int, *, or_first: bool = False) -> Terms:
    """Raises TwoValues. Of two constraints, the one whose pages are part of the other's decides.

    ``or_first``: where there are two values, the one that was written first counts, and nothing is raised.
    """
    of_class: dict[str, list[int]] = {}
    for one in binding.in_force:
        if number in one.lower:
            of_class.setdefault(model.constraints[one.number].attribute, []).append(one.number)
    always = number in binding.always
    lifetime = _decided(model, coverage, of_class.get("lifetime", []), or_first)
    channel = _decided(model, coverage, of_class.get("channel", []), or_first)
    minority = _decided(model, coverage, of_class.get("in_minority", []), or_first)
    responses = [model.constraints[at].value for at in of_class.get("response_time", [])]
    settings = model.settings
    lifetime_ms = settings.lifetime_ms
    if lifetime_ms is None and model.rules:  # without a specification nobody is turned away for having waited
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
    )


def _decided(model: Model, coverage: Coverage, numbers: list[int], or_first: bool) -> Constraint | None:
    """That of the smallest pages. Where there are several, neither within the other, they have to agree."""
    pages = {number: set(coverage.classes(model.constraints[number].pages)) for number in numbers}
    smallest = [number for number in numbers if not any(pages[other] < pages[number] for other in numbers)]
    for number in smallest[1:]:
        if not or_first and model.constraints[number].value != model.constraints[smallest[0]].value:
            raise TwoValues(smallest[0], number)
    return model.constraints[smallest[0]] if smallest else None
