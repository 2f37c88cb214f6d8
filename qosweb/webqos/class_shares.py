"""Shares of all classes under a given environment and demand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.api_types import ClassShare
from qosweb.webqos.policy.binding import bind, problem_of
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.division import divide
from qosweb.webqos.policy.environment import Environment, ShareBasis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.policy.binding import Binding


def compute_shares(model: Model, environment: Environment, demand_ppm: Mapping[str, int] | None) -> list[ClassShare]:
    """See ``qosweb.webqos.shares``."""
    coverage = Coverage(model)
    binding = bind(model, coverage, environment)
    demand = contended_demand(model, binding) if demand_ppm is None else _demand_by_number(model, demand_ppm)
    basis = ShareBasis.of(environment)
    given = divide(model, coverage, binding, basis, demand)
    # Bounds apply to what the always available classes leave. Like shares, they are reported relative to everything.
    left = PPM - sum(given[at] for at in binding.always)
    if basis.capacity_bps is not None:
        basis = replace(basis, capacity_bps=max(1, basis.capacity_bps * left // PPM))
    problem = problem_of(model, coverage, binding, basis)
    floors = {bound.classes[0]: bound.ppm * left // PPM for bound in problem.floors if len(bound.classes) == 1}
    ceilings = {bound.classes[0]: bound.ppm * left // PPM for bound in problem.ceilings if len(bound.classes) == 1}
    return [
        ClassShare(one.name, demand[at], given[at], floors.get(at), ceilings.get(at), at in binding.always)
        for at, one in enumerate(model.classes)
    ]


def contended_demand(model: Model, binding: Binding) -> list[int]:
    """The demand if every class wants everything. Always available classes want nothing: they are served first."""
    return [0 if at in binding.always else PPM for at in range(len(model.classes))]


def _demand_by_number(model: Model, demand_ppm: Mapping[str, int]) -> list[int]:
    names = [one.name for one in model.classes]
    if unknown := sorted(set(demand_ppm).difference(names)):
        raise ValueError(f"there is no class '{unknown[0]}'")
    return [demand_ppm.get(name, 0) for name in names]
