"""Checks for rules that are legal but probably not intended: bounds without effect, duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.model.model import Bytes, HeaderNumber, Requests, Share, Word
from qosweb.webqos.policy.binding import RESOURCES
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.syntax.diagnostics import Note, warning
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qosweb.webqos.model.model import Model
    from qosweb.webqos.specification import Specification
    from qosweb.webqos.syntax.diagnostics import Diagnostic
    from qosweb.webqos.syntax.positions import Span

BOUNDS_MAX = 200  # that are compared with each other


def check_surprises(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    coverage = Coverage(model)
    yield from _always(policy, model, coverage)
    yield from _bounds(policy, model, coverage)
    yield from _proxied(policy, model, coverage)
    yield from _twice(policy, model)


def _always(policy: Specification, model: Model, coverage: Coverage) -> Iterator[Diagnostic]:
    always: set[int] = set()
    last = None
    for number, rule in enumerate(model.constraints):
        if rule.attribute == "available" and rule.condition is None and not rule.shadow:
            always.update(coverage.classes(rule.pages))
            last = policy.constraint_rules[number]
            if len(always) == len(model.classes):
                yield warning(
                    last.constraint.span,
                    "all pages are always available, so they compete as if there were no rules",
                    "use 'always' only for the pages that must not fail",
                )
                break
    for number, rule in enumerate(model.constraints):
        if rule.attribute not in RESOURCES or rule.shadow or isinstance(rule.value, Word):
            continue
        covered = set(coverage.classes(rule.pages))
        if covered and covered <= always:
            yield warning(
                policy.constraint_rules[number].constraint.span,
                "this bound has no effect: these pages are always available",
                "remove one of the two",
            )


def _bounds(policy: Specification, model: Model, coverage: Coverage) -> Iterator[Diagnostic]:
    ceilings: list[tuple[int, int, set[int]]] = []
    floors: list[tuple[int, int, set[int]]] = []
    for number, rule in enumerate(model.constraints):
        span = policy.constraint_rules[number].constraint.span
        if rule.op == ">" and rule.value in (Requests(0), Bytes(0), Requests(0, True), Bytes(0, True)):
            yield warning(span, "this lower bound has no effect: it is zero", "remove it")
        if not isinstance(rule.value, Share) or rule.shadow:
            continue
        if rule.op == "<" and rule.value.ppm >= PPM:
            yield warning(span, "this upper bound has no effect: it is the whole capacity", "remove it")
        elif rule.op == ">" and rule.value.ppm == 0:
            yield warning(span, "this lower bound has no effect: it is zero", "remove it")
        elif rule.op != "=" and rule.condition is None and rule.attribute == "server_resource":
            listed = ceilings if rule.op == "<" else floors
            listed.append((number, rule.value.ppm, set(coverage.classes(rule.pages))))
    for number, other in _implied(
        ceilings, lambda ppm, classes, stronger, others: classes <= others and ppm >= stronger
    ):
        yield warning(
            policy.constraint_rules[number].constraint.span,
            "this upper bound has no effect: a smaller one covers these pages",
            "remove it",
            [Note(policy.constraint_rules[other].constraint.span, "the smaller one is here")],
        )
    for number, other in _implied(floors, lambda ppm, classes, stronger, others: others == classes and ppm <= stronger):
        yield warning(
            policy.constraint_rules[number].constraint.span,
            "this lower bound has no effect: a greater one covers these pages",
            "remove it",
            [Note(policy.constraint_rules[other].constraint.span, "the greater one is here")],
        )


def _proxied(policy: Specification, model: Model, coverage: Coverage) -> Iterator[Diagnostic]:
    """Bounds by the nodes' capacity on pages whose cost says that a server behind answers them."""
    proxied: dict[int, int] = {}  # class: the constraint
    for number, rule in enumerate(model.constraints):
        if (
            rule.attribute == "cost"
            and not rule.shadow
            and (rule.value == Word("time") or isinstance(rule.value, HeaderNumber))
        ):
            proxied.update((at, number) for at in coverage.classes(rule.pages))
    for number, rule in enumerate(model.constraints):
        of_nodes = isinstance(rule.value, Share) or (isinstance(rule.value, Requests | Bytes) and rule.value.per_node)
        if rule.attribute not in ("num_requests", "num_bytes") or not of_nodes or rule.shadow:
            continue
        covered = [at for at in coverage.classes(rule.pages) if at in proxied]
        if covered:
            yield warning(
                policy.constraint_rules[number].constraint.span,
                "this bound grows with the nodes, but a server behind them answers these pages",
                "use server_resource, a share of the server's slots, or an absolute rate",
                [Note(policy.constraint_rules[proxied[covered[0]]].constraint.span, "this says so")],
            )


def _implied(
    bounds: list[tuple[int, int, set[int]]], follows: Callable[[int, set[int], int, set[int]], bool]
) -> Iterator[tuple[int, int]]:
    """Pairs (redundant bound, bound that implies it). Equal bounds are not reported."""
    for number, ppm, classes in bounds[:BOUNDS_MAX]:
        for other, other_ppm, other_classes in bounds[:BOUNDS_MAX]:
            if follows(ppm, classes, other_ppm, other_classes) and (ppm, classes) != (other_ppm, other_classes):
                yield number, other
                break


def _twice(policy: Specification, model: Model) -> Iterator[Diagnostic]:
    seen: dict[str, Span] = {}
    for rule, node in zip(model.rules, [*policy.constraint_rules, *policy.priority_rules], strict=True):
        if rule.text in seen:
            yield warning(node.span, "duplicate statement", "remove it", [Note(seen[rule.text], "it is first here")])
        else:
            seen[rule.text] = node.span
