"""``qosweb explain``: shows the class of a request, the constraints that apply to it, its share, and the reasons."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from qosweb.errors import UsageError
from qosweb.tools.situation import RATES_IGNORED, environment_of, ignores_rates, read_literal, split_url
from qosweb.webqos import DescribedRequest, values
from qosweb.webqos import explain as explain_request
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.loader import load
from qosweb.webqos.match.matcher import Matcher

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from qosweb.webqos import Explanation
    from qosweb.webqos.policy.terms import Terms

CLASSES_MAX = 10  # names in a list of classes
_COSTS = {
    "time": "the time for which they hold a slot of a server",
    "bytes": "the bytes of their responses",
    "requests": "the same, each of them",
    "header": "what the response header {} says",
}
_MARKS = {"in force": "*", "overridden": "-", "not now": " ", "shadow": "~"}


def explain(arguments: argparse.Namespace) -> int:
    policy = load(arguments.file)
    model = policy.require_model()
    environment = environment_of(arguments, Matcher(model))
    found = explain_request(policy, _request(arguments, model.settings.site), environment)
    if arguments.json:
        print(json.dumps(_as_json(found), indent=2))
    else:
        print("".join(f"{line}\n" for line in _as_text(found)), end="")
        if ignores_rates(model, environment) and not found.terms.always:
            print(RATES_IGNORED, file=sys.stderr)
    return 0


def _request(arguments: argparse.Namespace, site: str | None) -> DescribedRequest:
    host, path = split_url(arguments.url, site)
    ages_ms = [
        read_literal(values.duration_ms, text, option) if text else None
        for option, text in (("--last-access", arguments.last_access), ("--last-modified", arguments.last_modified))
    ]
    return DescribedRequest(
        path,
        host,
        method=read_literal(values.method, arguments.method, "--method"),
        client=read_literal(values.address, arguments.client, "--client") if arguments.client else None,
        headers={name.lower(): value for name, value in _pairs(arguments.header, ":", "--header", "'Name: value'")},
        cookies=dict(_pairs(arguments.cookie, "=", "--cookie", "name=value")),
        size_bytes=read_literal(values.size_bytes, arguments.size, "--size") if arguments.size else None,
        owner=arguments.owner or None,
        last_access_ms=ages_ms[0],
        last_modified_ms=ages_ms[1],
        linked_from=tuple(split_url(url, site) for url in arguments.linked_from),
    )


def _pairs(texts: list[str], separator: str, option: str, form: str) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, found, value = text.partition(separator)
        if not found:
            raise UsageError(f"{option} '{text}': write it as {form}")
        yield name.strip(), value.strip()


def _as_json(found: Explanation) -> dict[str, object]:
    terms = found.terms
    return {
        "url": found.host + found.path,
        "class": found.class_name,
        "page_sets": list(found.page_sets),
        "always": terms.always,
        "share_under_contention": found.share_ppm / PPM,
        "lifetime_ms": terms.lifetime_ms,
        "response_time_ms": terms.response_ms,
        "channel": None if terms.channel_bytes is None else {"bytes": terms.channel_bytes, "ms": terms.channel_ms},
        "in_minority": terms.in_minority,
        "cost": _cost(terms),
        "constraints": [
            {"line": rule.line, "text": rule.text, "state": rule.state, "why": rule.why} for rule in found.rules
        ],
        "before": list(found.goes_before),
        "after": list(found.comes_after),
    }


def _cost(terms: Terms) -> str | None:
    return f'response_header("{terms.cost_header}")' if terms.cost == "header" else terms.cost


def _as_text(found: Explanation) -> Iterator[str]:
    yield f"{found.host}{found.path} is in the class '{found.class_name}'"
    if found.page_sets:
        yield f"  the page is covered by: {', '.join(found.page_sets)}"
    else:
        yield "  no pattern of a constraint covers the page"
    for condition in found.conditions:
        yield f"  {'holds' if condition.holds else 'does not hold'}: {condition.text}"
    yield ""
    width = max((len(str(rule.line)) for rule in found.rules), default=0)
    for rule in found.rules:
        yield f"  {_MARKS[rule.state]} line {rule.line:>{width}}: {rule.text}"
        yield f"    {' ' * (width + 6)} {rule.state}{f': {rule.why}' if rule.why else ''}"
    if not found.rules:
        yield "  no constraint applies to it"
    yield ""
    yield from _terms_as_text(found)
    for label, names in (("it goes before", found.goes_before), ("it comes after", found.comes_after)):
        if names:
            more = f" and {len(names) - CLASSES_MAX} more" if len(names) > CLASSES_MAX else ""
            yield f"{label}: {', '.join(names[:CLASSES_MAX])}{more}"


def _terms_as_text(found: Explanation) -> Iterator[str]:
    terms = found.terms
    if terms.always:
        yield "it is scheduled before everything else and never denied for lack of capacity"
    else:
        yield f"share if every class asks for more than it gets: {found.share_ppm * 100 / PPM:.4g}%"
        if terms.lifetime_ms is not None:
            yield f"it may wait {terms.lifetime_ms} ms"
    if terms.response_ms is not None:
        yield f"its response time should be at most {terms.response_ms} ms"
    if terms.channel_bytes is not None and terms.channel_ms is not None:
        rate = terms.channel_bytes * 1000 // terms.channel_ms
        yield f"its channel: {terms.channel_bytes} bytes in {terms.channel_ms} ms, {rate} bytes per second"
    if terms.cost is not None:
        yield f"its requests cost {_COSTS[terms.cost].format(terms.cost_header)}"
